"""The Hebbian product of one slice from its active units only, compiled.

Equal to `outer` of `kernels/array.py` up to rounding. As in the reconstruction, a patch of the padded error
image stands in registers, 64 weights at a time, while it is added to the features active at its position.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.geometry import Patches
from petabatch.kernels.cpu.convolution import paste
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Scratch, Shape, chunk_places, room_for_groups, tile_bounds
from petabatch.kernels.cpu.simd import lowest_bit, operations
from petabatch.kernels.cpu.sizes import GROUP, LANES
from petabatch.variable import Array

_, load, store, _, broadcast_fma, _, nonzero = operations(LANES)


class GradientScratch(NamedTuple):
    """Scratch of one thread for the gradient, in addition to `Scratch`."""

    patches: Array
    """Products `[nf, vectors * LANES]`, patch rows rounded up to whole vectors, patches to whole groups."""
    tallies: Array
    """Active units behind each patch element, int32 `[nf, PY, PX]`."""


def gradient_scratch(p: Patches, real: str) -> GradientScratch:
    """Return the scratch of one thread, for numbers of a precision."""
    return GradientScratch(
        np.zeros((p.features, room_for_groups(p, real)[:, 0].size), real),
        np.zeros((p.features, p.y.size, p.x.size), np.int32),
    )


def dictionary_gradient(
    A: Array, error: Array, s: Shape, work: Scratch, sums: GradientScratch, product: Array,
    counts: Array | None,
) -> None:  # fmt: skip
    """Write the sum over positions of activity times error patch, and how many active units it comes from.

    `A` is `[ny * nx * nf]`, `error` `[NY, NX * C]`, `product` `[nf, K]` and `counts` `[nf, PY * PX]`, all
    of one precision. A weight counts the units that are active and whose patch element lies inside the image
    (`HebbianUpdater.cpp:564-844`, for borders of zeros), which is the same for all channels.
    """
    padded = product.shape != sums.patches.shape
    patches = sums.patches if padded else product
    _gather(A, error, s, work, patches, sums.tallies)
    if padded:
        _write_products(patches, s, product)
    if counts is not None:
        _write_counts(sums.tallies, counts)


@njit(nogil=True, error_model="numpy")
def _gather(A: Any, error: Any, s: Shape, work: Scratch, patches: Any, tallies: Any) -> None:
    """Sum up products in `patches`; put the corners of what each unit counts for in `tallies`."""
    nf, active, ends, vectors, length = s.features, work.active, work.ends, work.vectors, patches.shape[1]
    channels = s.row // tallies.shape[2]
    paste(error, s, work.error)
    patches[:] = 0
    tallies[:] = 0
    for tile in range(work.strips.shape[0]):
        start, begin, end = tile_bounds(tile, s)
        for base in range(begin, end, s.chunk):
            places, n = chunk_places(base, begin, end, s, work), 0
            for m in range(places.size):
                n = ends[m + 1] = _list_active(A, (base + m) * nf, nf, active, n)
                place = start + places[m]
                _tally(active[ends[m] : n], place // s.pitch, place % s.pitch, s, channels, tallies)
            for group in range(length // (GROUP * LANES)):
                for m in range(places.size):
                    if ends[m] == ends[m + 1]:
                        continue
                    place, p = start + places[m], group * GROUP
                    e0, e1 = load(work.error, place + vectors[p]), load(work.error, place + vectors[p + 1])
                    e2, e3 = (
                        load(work.error, place + vectors[p + 2]),
                        load(work.error, place + vectors[p + 3]),
                    )
                    e4, e5 = (
                        load(work.error, place + vectors[p + 4]),
                        load(work.error, place + vectors[p + 5]),
                    )
                    e6, e7 = (
                        load(work.error, place + vectors[p + 6]),
                        load(work.error, place + vectors[p + 7]),
                    )
                    for k in range(ends[m], ends[m + 1]):
                        i, w = (base + m) * nf + active[k], active[k] * length + p * LANES
                        _add_product(patches, w, A, i, e0)
                        _add_product(patches, w + LANES, A, i, e1)
                        _add_product(patches, w + 2 * LANES, A, i, e2)
                        _add_product(patches, w + 3 * LANES, A, i, e3)
                        _add_product(patches, w + 4 * LANES, A, i, e4)
                        _add_product(patches, w + 5 * LANES, A, i, e5)
                        _add_product(patches, w + 6 * LANES, A, i, e6)
                        _add_product(patches, w + 7 * LANES, A, i, e7)


@njit(nogil=True, error_model="numpy")
def _list_active(A: Any, start: int, nf: int, active: Any, n: int) -> int:
    """List which of the `nf` units from `start` are active, from place `n` on; return the place after."""
    whole = nf - nf % LANES
    for f in range(0, whole, LANES):
        bits = nonzero(A, start + f)
        while bits != 0:
            active[n] = f + lowest_bit(bits)
            n += 1
            bits &= bits - np.uint64(1)
    for f in range(whole, nf):
        if A[start + f] != 0:
            active[n] = f
            n += 1
    return n


@njit(nogil=True, error_model="numpy", inline="always")
def _add_product(patches: Any, w: int, A: Any, i: int, patch: Any) -> None:
    store(patches, w, broadcast_fma(load(patches, w), A, i, patch))


@njit(nogil=True, error_model="numpy")
def _tally(active: Any, row: int, column: int, s: Shape, channels: int, tallies: Any) -> None:
    """Add 1 at the first patch element inside the image, and take it back after the last, on both axes.

    The patch starts at `row` and `column` of the padded image.
    """
    rows, columns = tallies.shape[1:]
    y0, y1 = max(0, s.top - row), min(rows, s.top + s.height - row)
    x0, x1 = max(0, s.left - column) // channels, min(s.row, s.left + s.width - column) // channels
    for f in active:
        tallies[f, y0, x0] += 1
        if x1 < columns:
            tallies[f, y0, x1] -= 1
        if y1 < rows:
            tallies[f, y1, x0] -= 1
            if x1 < columns:
                tallies[f, y1, x1] += 1


@njit(nogil=True, error_model="numpy")
def _write_products(patches: Any, s: Shape, product: Any) -> None:
    """Put products in the order of weights."""
    wide = -(-s.row // LANES) * LANES
    for f in range(s.features):
        for r in range(s.rows):
            for i in range(s.row):
                product[f, r * s.row + i] = patches[f, r * wide + i]


@njit(nogil=True, error_model="numpy")
def _write_counts(tallies: Any, counts: Any) -> None:
    """Sum up tallies over both axes and write them."""
    nf, rows, columns = tallies.shape
    for f in range(nf):
        for r in range(rows):
            across = 0
            for x in range(columns):
                across += tallies[f, r, x]
                tallies[f, r, x] = across + (tallies[f, r - 1, x] if r > 0 else 0)
                counts[f, r * columns + x] = tallies[f, r, x]
