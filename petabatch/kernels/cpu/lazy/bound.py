"""The bound on how far potentials have moved since they were computed, and the choice of its direction.

`lazy/__init__.py` derives it; F, D, c, slope and path length are named as there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Images, Scratch, Shape, chunk_places, tile_bounds
from petabatch.kernels.cpu.lazy.layout import (
    ALWAYS,
    FEATURE_BLOCK,
    POSITION_BLOCK,
    LazyModel,
    LazyScratch,
    LazyState,
    first_row,
)
from petabatch.kernels.cpu.rules import FAST, ZERO
from petabatch.kernels.cpu.simd import operations, pair_operations
from petabatch.kernels.cpu.sizes import LANES
from petabatch.kernels.rules import Cell

_EPS = np.float32(2.0**-24)
_SEVERAL_EPS = np.float32(16) * _EPS
_ROUND_UP = np.float32(1 + 2.0**-22)
_COST = 1.0
"""Cost of `choose_direction`, in computations of all units one by one."""
zeros, load, _, _, _, _ = operations(LANES)
fma, horizontal_sum, _ = pair_operations(LANES)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def filter_rows(
    images: Images, begin: int, end: int, ahead: Any, model: LazyModel, state: LazyState, squares: Any
) -> None:
    """Write rows begin .. end of the error image and update F from them; c grows by `ahead`."""
    factor, e, gain, s = images.factor, model.decay.powers[1], model.decay.scaled_gain[0], model.shape
    for y in range(begin, end):
        source, minus, to = images.image[y], images.recon[y], images.error[y]
        start = (y + s.top) * s.pitch + s.left
        f, d = state.filtered[start : start + s.width], squares[start : start + s.width]
        way = state.direction[start : start + s.width]
        for i in range(s.width):
            r = factor * source[i] - minus[i]
            now = e * f[i] + gain * r
            move = (now - f[i]) - ahead * way[i]
            to[i], f[i], d[i] = r, now, move * move


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def sum_rows(squares: Any, start: int, rows: int, pitch: int, column: Any) -> None:
    """Sum squares over the rows of a patch."""
    copy(squares[start : start + pitch], column)
    for r in range(1, rows):
        row = squares[start + r * pitch : start + (r + 1) * pitch]
        for i in range(pitch):
            column[i] += row[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def sum_columns(column: Any) -> Any:
    """Sum squares over the columns of a patch."""
    found = ZERO
    for i in range(column.size):
        found += column[i]
    return found


@njit(nogil=True, error_model="numpy")
def extend_paths(
    squares: Any, begin: int, end: int, s: Shape, places: Any, column: Any, path_length: Any
) -> None:
    """Add the length of the change of each patch to the path lengths of positions begin .. end."""
    # What sums of squares lose by rounding, twice over.
    longer = np.float32(1) + np.float32(2 * s.rows * s.row) * _EPS
    for y in range(begin // s.nx, end // s.nx):
        sum_rows(squares, (s.origin + y * s.stride_y) * s.pitch, s.rows, s.pitch, column)
        for x in range(s.nx):
            i = y * s.nx + x
            step = np.sqrt(sum_columns(column[places[x] : places[x] + s.row]))
            path_length[i] = (path_length[i] + longer * step) * _ROUND_UP


@njit(nogil=True, error_model="numpy")
def products(
    image: Any, start: int, places: Any, due: Any, count: int, vectors: Any, rows: Any, f: int, found: Any
) -> None:  # fmt: skip
    """Write the products of a feature with the patches of the first `count` positions that are due."""
    length = rows.shape[1]
    for n in range(0, count, POSITION_BLOCK):
        # Beyond the last position it is computed again.
        a, b = start + places[due[n]], start + places[due[min(n + 1, count - 1)]]
        c, d = start + places[due[min(n + 2, count - 1)]], start + places[due[min(n + 3, count - 1)]]
        v0, v1, v2, v3 = zeros(), zeros(), zeros(), zeros()
        w = f * length
        for vector in range(length // LANES):
            weights, i = load(rows, w), vectors[vector]
            v0 = fma(v0, load(image, a + i), weights)
            v1 = fma(v1, load(image, b + i), weights)
            v2 = fma(v2, load(image, c + i), weights)
            v3 = fma(v3, load(image, d + i), weights)
            w += LANES
        found[n], found[n + 1] = horizontal_sum(v0), horizontal_sum(v1)
        found[n + 2], found[n + 3] = horizontal_sum(v2), horizontal_sum(v3)


@njit(nogil=True, error_model="numpy")
def all_products(image: Any, start: int, places: Any, vectors: Any, rows: Any, f: int, found: Any) -> None:
    """Write the products of FEATURE_BLOCK features, from `f` on, with the patches of all `places`.

    They have the bits of `products`, but more of what is read is used again.
    """
    count, length, last = places.size, rows.shape[1], rows.shape[0] - 1
    for n in range(0, count, 2):
        # Beyond the last position and feature it is computed again.
        a, b = start + places[n], start + places[min(n + 1, count - 1)]
        w0, w1 = f * length, min(f + 1, last) * length
        w2, w3 = min(f + 2, last) * length, min(f + 3, last) * length
        a0, a1, a2, a3 = zeros(), zeros(), zeros(), zeros()
        b0, b1, b2, b3 = zeros(), zeros(), zeros(), zeros()
        for vector in range(length // LANES):
            i, j = vectors[vector], vector * LANES
            va, vb = load(image, a + i), load(image, b + i)
            weights = load(rows, w0 + j)
            a0, b0 = fma(a0, va, weights), fma(b0, vb, weights)
            weights = load(rows, w1 + j)
            a1, b1 = fma(a1, va, weights), fma(b1, vb, weights)
            weights = load(rows, w2 + j)
            a2, b2 = fma(a2, va, weights), fma(b2, vb, weights)
            weights = load(rows, w3 + j)
            a3, b3 = fma(a3, va, weights), fma(b3, vb, weights)
        found[0, n], found[1, n], found[2, n], found[3, n] = (
            horizontal_sum(a0),
            horizontal_sum(a1),
            horizontal_sum(a2),
            horizontal_sum(a3),
        )
        found[0, n + 1], found[1, n + 1] = horizontal_sum(b0), horizontal_sum(b1)
        found[2, n + 1], found[3, n + 1] = horizontal_sum(b2), horizontal_sum(b3)


@njit(nogil=True, error_model="numpy")
def threshold_margin(u: Any, product: Any, norm: Any, path_length: Any, length: int, c: Cell) -> Any:
    """Return by how much w . patch can grow before a silent unit crosses its threshold, less rounding.

    The path length is at least |patch of F| + |patch of D|, and at most as much again and the margin longer
    once the unit wakes. A product of `length` pairs in LANES sums is wrong by (length / LANES + 4) eps |w|
    |patch| at most: now, when the unit wakes (twice the path length), and in the slope. Steps of F relative
    to D are wrong by 4 eps |patch of D| in the sum, slope c + path length and the wake level by some eps of
    the path length and the margin. H and its sum with the product are wrong by a few eps of their size,
    covered by 16 eps.
    """
    if c.signed:
        u, product = abs(u), abs(product)
    size = max(u, product)
    wrong = np.float32(4 * (length // LANES + 10)) * _EPS
    room = (c.threshold - size) * (np.float32(1) - wrong)
    return room - wrong * norm * path_length - _SEVERAL_EPS * (abs(u) + abs(product) + abs(c.threshold))


@njit(nogil=True, error_model="numpy")
def set_direction(images: Images, state: LazyState, s: Shape, work: Scratch, lazy: LazyScratch) -> None:
    """Let D be the error less F and wake all units; `set_slopes` is then to be called for all tiles."""
    factor, image, recon = images.factor, images.image, images.recon
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        f, way = state.filtered[start : start + s.width], state.direction[start : start + s.width]
        for i in range(s.width):
            way[i] = factor * image[y, i] - recon[y, i] - f[i]
    state.progress[0] = ZERO
    state.wake_level[:] = ALWAYS
    # Path lengths begin with |patch of F| + |patch of D|, which bounds the rounding of products.
    state.path_length[:] = ZERO
    for lengths in (state.filtered, state.direction):
        lazy.squares[:] = lengths[: lazy.squares.size] ** 2
        extend_paths(lazy.squares, 0, s.ny * s.nx, s, work.places, lazy.column, state.path_length)


@njit(nogil=True, error_model="numpy")
def set_slopes(tile: int, state: LazyState, model: LazyModel, work: Scratch, lazy: LazyScratch) -> None:
    """Write the slopes of all units of a tile; with thresholds on both sides, their sizes."""
    weights, c, _, s = model
    start, begin, end = tile_bounds(tile, s)
    for base in range(begin, end, s.chunk):
        places, row = chunk_places(base, begin, end, s, work), first_row(tile, base - begin, s)
        for f in range(0, s.features, FEATURE_BLOCK):
            all_products(state.direction, start, places, work.vectors, weights.rows, f, lazy.products)
            for k in range(min(FEATURE_BLOCK, s.features - f)):
                norm, slope = weights.norms[f + k], state.slope[(row + f + k) * s.chunk :]
                for m in range(places.size):
                    rise = lazy.products[k, m] / norm if norm > ZERO else ZERO
                    slope[m] = abs(rise) if c.signed else rise


@njit(nogil=True, error_model="numpy")
def choose_direction(
    images: Images, state: LazyState, model: LazyModel, work: Scratch, lazy: LazyScratch
) -> None:
    """Choose D and wake all units; changes nothing that results depend on."""
    set_direction(images, state, model.shape, work, lazy)
    for tile in range(work.strips.shape[0]):
        set_slopes(tile, state, model, work, lazy)


@njit(nogil=True, error_model="numpy")
def worth_choosing(wasted: float, now: int, left: int, units: int) -> bool:
    """Say whether to choose a new direction, `left` steps before the end.

    `wasted` units were computed and silent since the last time, `now` of them in this step. Where this number
    grows in proportion to the time, the least is spent by choosing when they have cost as much as the choice
    does. Just before the end nothing is gained.
    """
    return wasted > _COST * units and float(now) * left > _COST * units
