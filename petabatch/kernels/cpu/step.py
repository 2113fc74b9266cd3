"""Many steps of a sparse-coding loop in one call: compiled, without the interpreter lock, slice by slice.

    error = factor * image - recon          restricted to the image; recon of the step before
    V = e V + (1 - e)(W^T error + A);  A = T(V)          or another rule of `cpu_units.py`
    recon = W A

Equal to the layer-by-layer path through `kernels/array.py` up to rounding. One compilation serves every
geometry. The two convolutions, and why they are fast, stand in `cpu_convolution.py`. A slice is worked
through in tiles of rows. The patches of a tile add up in a strip of its own and strips are joined in order,
so that tiles can run on any number of threads with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.controllers import (
    ACTIVE,
    MOVES,
    SUM,
    TURNS,
    UPHILL,
    StepControl,
    energy,
    rates,
    restart,
    sum_squares,
    total,
)  # fmt: skip
from petabatch.kernels.cpu.convolution import add_patches, crop, drive_units, join_strips, residual
from petabatch.kernels.cpu.layout import Dictionary, Scratch, Shape
from petabatch.kernels.cpu.rules import ACCELERATED, Cell, Units, accelerate, compare, update

_ZERO = np.float32(0)


@njit(nogil=True, error_model="numpy", cache=True)
def rows_of(count: int, s: Shape) -> tuple[int, int, int]:
    """Return how the units of `count` positions lie in a drive: so many rows, of so many units, so far apart.

    One long row where features fill their panels, else a row for each position.
    """
    nf, wide = s.features, s.wide
    return (1, count * nf, count * nf) if wide == nf else (count, nf, wide)


@njit(nogil=True, error_model="numpy", cache=True)
def compare_tile(tile: int, units: Units, weights: Dictionary, s: Shape, work: Scratch) -> None:
    """Compute the drive of a tile, into `units.before`, and how it turned since the step before."""
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, moves, turns = s.features, 0.0, 0.0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places = work.places[base - begin : base - begin + count]
        drive_units(base, count, start, places, weights, s, work)
        rows, length, pitch = rows_of(count, s)
        for m in range(rows):
            part = slice(base * nf + m * length, base * nf + (m + 1) * length)
            drive = work.drive[m * pitch : m * pitch + length]
            move, turn = compare(drive, units.A[part], units.V[part], units.before[part], work.turned[part])
            moves, turns = moves + move, turns + turn
    work.tallies[tile, MOVES], work.tallies[tile, TURNS] = moves, turns


@njit(nogil=True, error_model="numpy", cache=True)
def update_tile(
    tile: int, first: bool, last: bool, look: bool, units: Units, weights: Dictionary, c: Cell, e: Any,
    rest: Any, s: Shape, work: Scratch,
) -> None:  # fmt: skip
    """Make the membrane update of a tile and write its strip; if told to look, tally its activity.

    Of layers with A = T(V), A is read in the first of many steps and written after the last, not between.
    """
    strip = work.strips[tile]
    strip[:] = _ZERO
    start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
    nf, code = s.features, work.drive
    size, active, uphill = 0.0, 0, 0.0
    begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
    for base in range(begin, end, s.chunk):
        count = min(s.chunk, end - base)
        places = work.places[base - begin : base - begin + count]
        if c.rule != ACCELERATED:
            drive_units(base, count, start, places, weights, s, work)
        rows, length, pitch = rows_of(count, s)
        for m in range(rows):
            part = slice(base * nf + m * length, base * nf + (m + 1) * length)
            row = code[m * pitch : m * pitch + length]
            A, V, before = units.A[part], units.V[part], units.before[part]
            if c.rule == ACCELERATED:
                uphill += accelerate(row, A, V, before, work.turned[part], e, rest, c)
                continue
            update(row, A, V, before, first, e, rest, c)
            if last:
                A[:] = row
        add_patches(base, count, code, places, weights, s, work, strip)
        if look:
            active += work.ends[count]
            for a in work.values[: work.ends[count]]:
                size += abs(np.float64(a))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE], work.tallies[tile, UPHILL] = size, active, uphill


@njit(nogil=True, error_model="numpy", cache=True)
def sums_of_state(error: Any, A: Any, s: Shape, work: Scratch) -> tuple[float, float, float]:
    """Return sum error^2, sum |A| and the number of active units, with the bits of `sums_of_step`."""
    squares = 0.0
    for y in range(s.height):
        squares += sum_squares(error[y])
    each = s.tile * s.nx * s.features
    for tile in range(work.strips.shape[0]):
        size, active = 0.0, 0
        for a in A[tile * each : (tile + 1) * each]:
            size += abs(np.float64(a))
            active += a != _ZERO
        work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return squares, total(work.tallies, SUM), total(work.tallies, ACTIVE)


@njit(nogil=True, error_model="numpy", cache=True)
def sums_of_step(s: Shape, work: Scratch) -> tuple[float, float, float]:
    """Return sum error^2, sum |A| and the number of active units of the step just made."""
    squares = 0.0
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        squares += sum_squares(work.error[start : start + s.width])
    return squares, total(work.tallies, SUM), total(work.tallies, ACTIVE)


@njit(nogil=True, error_model="numpy", cache=True)
def advance(
    image: Any, factor: Any, recon: Any, error: Any, units: Units, weights: Dictionary, c: Cell,
    p: StepControl, fresh: bool, s: Shape, work: Scratch, steps: int, watched: Any, sums: Any,
) -> None:  # fmt: skip
    """Make `steps` steps of one slice.

    `image`, `recon`, `error` are `[NY, NX * C]`; all but the image are updated in place. `fresh` says that
    the image is new. Where `watched` `[steps]` is true or a time scale adapts, that row of `sums`
    `[steps, 3]` float64 receives sum error^2, sum |A| and the number of active units after the step; asking
    for them changes no bit of the state.
    """
    tiles = work.strips.shape[0]
    seen = -1.0
    if p.adaptive and not fresh and steps > 0:
        seen = energy(p, sums_of_state(error, units.A, s, work))
    for step in range(steps):
        look = p.adaptive or watched[step]
        residual(image, factor, recon, 0, s.height, s, work.error)
        if c.rule == ACCELERATED:
            for tile in range(tiles):
                compare_tile(tile, units, weights, s, work)
        e, rest = rates(c, p, seen, work.tallies)
        for tile in range(tiles):
            update_tile(
                tile, step == 0, step == steps - 1, look, units, weights, c, e, rest, s, work
            )  # fmt: skip
        restart(c, p, work.tallies)
        if look:
            found = sums_of_step(s, work)
            seen = energy(p, found)
            sums[step, 0], sums[step, 1], sums[step, 2] = found
        join_strips(work.strips, 0, s.height, s, recon)
    if steps > 0:
        crop(work.error, s, error)
