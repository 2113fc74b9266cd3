"""How far potentials can have moved since they were computed: a bound that costs next to nothing.

While the error stays as it is, the filtered error F of `cpu_lazy` moves from where it is straight to the
error: by c D, where D is the way to go and c = e c + (1 - e), 0 at first. So this part of what a feature
w sees is known ahead from its *slope*, w . (patch of D) / |w|. What F moves by beside that is a patch of
length d in a step, and moves w . (patch of F) by |w| d at most (Cauchy-Schwarz). With the *path* of a
position, the sum of all d, the potential of a silent unit stays below

    V now + |w| (slope (c - c now) + (path - path now))

which gives its alarm, to be compared with slope c + path:

    alarm = slope c + path + (threshold - max(V, w . patch)) / |w|

`aim` chooses D. It costs two computations of all units: one for the slopes, one because all alarms are set
anew; but as the error changes, D grows stale and units are woken for nothing: see `worth_aiming`.
Without D this is the bound by the path of F alone, which lets few units sleep where all potentials move, as
in the first time constant after a new image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.layout import PIECE, Scratch, Shape
from petabatch.kernels.cpu.lazy.layout import BLOCK, FEATURES, Features, LazyScratch, LazyState, first_row
from petabatch.kernels.cpu.rules import FAST, Cell
from petabatch.kernels.cpu.simd import operations, pair_operations

_ZERO = np.float32(0)
_ALWAYS = np.float32(-np.inf)
_EPS = np.float32(2.0**-24)
_FEW = np.float32(16) * _EPS
_UP = np.float32(1 + 2.0**-22)
_COST = 1.0
"""What `aim` costs, in units that are computed one by one."""
zeros, load, _, _, _, _ = operations(PIECE)
product_add, sum_of, _ = pair_operations(PIECE)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def filter_rows(
    image: Any, factor: Any, recon: Any, begin: int, end: int, e: Any, rest: Any, ahead: Any, s: Shape,
    error: Any, state: LazyState, change: Any,
) -> None:  # fmt: skip
    """Write rows begin .. end of the error image and bring F up to date with them; c grows by `ahead`."""
    for y in range(begin, end):
        source, minus, to = image[y], recon[y], error[y]
        start = (y + s.top) * s.pitch + s.left
        f, d = state.filtered[start : start + s.width], change[start : start + s.width]
        way = state.direction[start : start + s.width]
        for i in range(s.width):
            r = factor * source[i] - minus[i]
            now = e * f[i] + rest * r
            move = (now - f[i]) - ahead * way[i]
            to[i], f[i], d[i] = r, now, move * move


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def sum_rows(squares: Any, start: int, rows: int, pitch: int, column: Any) -> None:
    """Sum squares over the rows of a patch."""
    column[:] = squares[start : start + pitch]
    for r in range(1, rows):
        row = squares[start + r * pitch : start + (r + 1) * pitch]
        for i in range(pitch):
            column[i] += row[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def sum_columns(column: Any) -> Any:
    """Sum squares over the columns of a patch."""
    found = _ZERO
    for i in range(column.size):
        found += column[i]
    return found


@njit(nogil=True, error_model="numpy", cache=True)
def walk(squares: Any, begin: int, end: int, s: Shape, places: Any, column: Any, path: Any) -> None:
    """Make the path of positions begin .. end longer by the length of what patches changed by."""
    # What sums of squares lose by rounding, twice over.
    longer = np.float32(1) + np.float32(2 * s.rows * s.row) * _EPS
    for y in range(begin // s.nx, end // s.nx):
        sum_rows(squares, (s.origin + y * s.stride_y) * s.pitch, s.rows, s.pitch, column)
        for x in range(s.nx):
            i = y * s.nx + x
            step = np.sqrt(sum_columns(column[places[x] : places[x] + s.row]))
            path[i] = (path[i] + longer * step) * _UP


@njit(nogil=True, error_model="numpy", cache=True)
def products(
    image: Any, start: int, places: Any, due: Any, count: int, pieces: Any, rows: Any, f: int, found: Any
) -> None:  # fmt: skip
    """Write the products of a feature with the patches of `count` positions that are due."""
    length = rows.shape[1]
    for n in range(0, count, BLOCK):
        # Beyond the last position it is computed again.
        a, b = start + places[due[n]], start + places[due[min(n + 1, count - 1)]]
        c, d = start + places[due[min(n + 2, count - 1)]], start + places[due[min(n + 3, count - 1)]]
        v0, v1, v2, v3 = zeros(), zeros(), zeros(), zeros()
        w = f * length
        for piece in range(length // PIECE):
            weights, i = load(rows, w), pieces[piece]
            v0 = product_add(v0, load(image, a + i), weights)
            v1 = product_add(v1, load(image, b + i), weights)
            v2 = product_add(v2, load(image, c + i), weights)
            v3 = product_add(v3, load(image, d + i), weights)
            w += PIECE
        found[n], found[n + 1] = sum_of(v0), sum_of(v1)
        found[n + 2], found[n + 3] = sum_of(v2), sum_of(v3)


@njit(nogil=True, error_model="numpy", cache=True)
def all_products(
    image: Any, start: int, places: Any, count: int, pieces: Any, rows: Any, f: int, found: Any
) -> None:  # fmt: skip
    """Write the products of FEATURES features, from `f` on, with the patches of `count` positions.

    They have the bits of `products`, but more of what is read is used again.
    """
    length, last = rows.shape[1], rows.shape[0] - 1
    for n in range(0, count, 2):
        # Beyond the last position and feature it is computed again.
        a, b = start + places[n], start + places[min(n + 1, count - 1)]
        w0, w1 = f * length, min(f + 1, last) * length
        w2, w3 = min(f + 2, last) * length, min(f + 3, last) * length
        a0, a1, a2, a3, b0, b1, b2, b3 = (
            zeros(),
            zeros(),
            zeros(),
            zeros(),
            zeros(),
            zeros(),
            zeros(),
            zeros(),
        )
        for piece in range(length // PIECE):
            i, j = pieces[piece], piece * PIECE
            va, vb = load(image, a + i), load(image, b + i)
            weights = load(rows, w0 + j)
            a0, b0 = product_add(a0, va, weights), product_add(b0, vb, weights)
            weights = load(rows, w1 + j)
            a1, b1 = product_add(a1, va, weights), product_add(b1, vb, weights)
            weights = load(rows, w2 + j)
            a2, b2 = product_add(a2, va, weights), product_add(b2, vb, weights)
            weights = load(rows, w3 + j)
            a3, b3 = product_add(a3, va, weights), product_add(b3, vb, weights)
        found[0, n], found[1, n], found[2, n], found[3, n] = sum_of(a0), sum_of(a1), sum_of(a2), sum_of(a3)
        found[0, n + 1], found[1, n + 1] = sum_of(b0), sum_of(b1)
        found[2, n + 1], found[3, n + 1] = sum_of(b2), sum_of(b3)


@njit(nogil=True, error_model="numpy", cache=True)
def room_to_sleep(u: Any, product: Any, norm: Any, path: Any, length: int, c: Cell) -> Any:
    """Return by how much w . patch can grow before a silent unit crosses its threshold, less rounding.

    The path is at least |patch of F| + |patch of D|, and once the unit wakes longer by at most as much again
    and the room. A product of `length` pairs in PIECE sums is wrong by (length / PIECE + 4) eps |w| |patch|
    at most: now, when the unit wakes (twice the path), and in the slope; steps of F beside D are wrong by 4
    eps |patch of D| in the sum, slope c + path and the alarm by some eps of the path and the room. H and its
    sum with the product are wrong by a few eps of their size, covered by 16 eps.
    """
    if c.signed:
        u, product = abs(u), abs(product)
    size = max(u, product)
    wrong = np.float32(4 * (length // PIECE + 10)) * _EPS
    room = (c.threshold - size) * (np.float32(1) - wrong)
    return room - wrong * norm * path - _FEW * (abs(u) + abs(product) + abs(c.threshold))


@njit(nogil=True, error_model="numpy", cache=True)
def set_direction(
    image: Any, factor: Any, recon: Any, state: LazyState, s: Shape, work: Scratch, own: LazyScratch
) -> None:
    """Let D be the way from F to the error, and wake everybody; slopes are then to be set on all tiles."""
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        f, way = state.filtered[start : start + s.width], state.direction[start : start + s.width]
        for i in range(s.width):
            way[i] = factor * image[y, i] - recon[y, i] - f[i]
    state.lead[0] = _ZERO
    state.alarm[:] = _ALWAYS
    # The path begins with |patch of F| + |patch of D|, which bounds the rounding of products.
    state.path[:] = _ZERO
    for lengths in (state.filtered, state.direction):
        own.change[:] = lengths[: own.change.size] ** 2
        walk(own.change, 0, s.ny * s.nx, s, work.places, own.column, state.path)


@njit(nogil=True, error_model="numpy", cache=True)
def set_slopes(
    tile: int, signed: bool, state: LazyState, weights: Features, s: Shape, work: Scratch, own: LazyScratch
) -> None:
    """Write the slopes of all units of a tile; of units with thresholds on both sides their size."""
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places, row = work.places[base - begin : base - begin + count], first_row(tile, base - begin, s)
        for f in range(0, s.features, FEATURES):
            all_products(state.direction, start, places, count, work.pieces, weights.rows, f, own.found)
            for k in range(min(FEATURES, s.features - f)):
                norm, slope = weights.norms[f + k], state.slope[(row + f + k) * s.chunk :]
                for m in range(count):
                    rise = own.found[k, m] / norm if norm > _ZERO else _ZERO
                    slope[m] = abs(rise) if signed else rise


@njit(nogil=True, error_model="numpy", cache=True)
def aim(
    image: Any, factor: Any, recon: Any, signed: bool, state: LazyState, weights: Features, s: Shape,
    work: Scratch, own: LazyScratch,
) -> None:  # fmt: skip
    """Choose D and wake everybody; changes nothing that results depend on."""
    set_direction(image, factor, recon, state, s, work, own)
    for tile in range(work.strips.shape[0]):
        set_slopes(tile, signed, state, weights, s, work, own)


@njit(nogil=True, error_model="numpy", cache=True)
def worth_aiming(in_vain: float, now: int, left: int, units: int) -> bool:
    """Say whether to aim: `in_vain` units were computed and silent since the last time, `now` in this step.

    Where their number grows in proportion to the time, the least is spent if one aims when they cost as much
    as aiming does. Nothing is gained by it just before the end.
    """
    return in_vain > _COST * units and float(now) * left > _COST * units
