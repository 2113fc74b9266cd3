"""The dense step of a sparse-coding loop: many steps of a slice in one compiled call, without the GIL.

    error = factor * image - recon          restricted to the image; recon of the step before
    V = e V + (1 - e)(W^T error + A);  A = T(V)          or another rule of `rules.py`
    recon = W A

Equal to the layer-by-layer path through `kernels/array.py` up to rounding. One compilation serves every
geometry. `convolution.py` has the two convolutions and says why they are fast. A slice is computed in tiles
of rows; the patches of each tile add up in a strip, and strips are joined in order, so that tiles can run on
any number of threads with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.certificate import Looks, is_due, look
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
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Images, Model, Scratch, Shape, StepSums, chunk_places, tile_bounds
from petabatch.kernels.cpu.rules import ZERO, accelerate, compare, update
from petabatch.kernels.rules import ACCELERATED, Units


@njit(nogil=True, error_model="numpy")
def rows_of(count: int, s: Shape) -> tuple[int, int, int]:
    """Return the rows of units in the drive of `count` positions, the units of a row, and the row pitch.

    One long row where features fill their panels, else a row for each position.
    """
    nf, wide = s.features, s.wide
    return (1, count * nf, count * nf) if wide == nf else (count, nf, wide)


@njit(nogil=True, error_model="numpy")
def compare_tile(tile: int, units: Units, model: Model, work: Scratch) -> None:
    """Compute the drive of a tile, into `units.before`, and its change since the step before."""
    weights, _, s = model
    start, begin, end = tile_bounds(tile, s)
    nf, moves, turns = s.features, 0.0, 0.0
    for base in range(begin, end, s.chunk):
        places = chunk_places(base, begin, end, s, work)
        drive_units(base, start, places, weights, s, work)
        rows, length, pitch = rows_of(places.size, s)
        for m in range(rows):
            part = slice(base * nf + m * length, base * nf + (m + 1) * length)
            drive = work.drive[m * pitch : m * pitch + length]
            move, turn = compare(drive, units.A[part], units.V[part], units.before[part], work.turned[part])
            moves, turns = moves + move, turns + turn
    work.tallies[tile, MOVES], work.tallies[tile, TURNS] = moves, turns


@njit(nogil=True, error_model="numpy")
def update_tile(
    tile: int, first: bool, last: bool, wanted: bool, units: Units, model: Model, e: Any, gain: Any,
    work: Scratch,
) -> None:  # fmt: skip
    """Make the membrane update of a tile and write its strip; tally its activity where that is `wanted`.

    Of layers with A = T(V), A is read in the first of many steps and written after the last, not between.
    """
    weights, c, s = model
    strip, code = work.strips[tile], work.drive
    strip[:] = ZERO
    start, begin, end = tile_bounds(tile, s)
    nf, size, active, uphill = s.features, 0.0, 0, 0.0
    for base in range(begin, end, s.chunk):
        places = chunk_places(base, begin, end, s, work)
        if c.rule != ACCELERATED:
            drive_units(base, start, places, weights, s, work)
        rows, length, pitch = rows_of(places.size, s)
        for m in range(rows):
            part = slice(base * nf + m * length, base * nf + (m + 1) * length)
            row = code[m * pitch : m * pitch + length]
            A, V, before = units.A[part], units.V[part], units.before[part]
            if c.rule == ACCELERATED:
                uphill += accelerate(row, A, V, before, work.turned[part], e, gain, c)
                continue
            update(row, A, V, before, first, e, gain, c)
            if last:
                A[:] = row
        add_patches(base, places, code, weights, s, work, strip)
        if wanted:
            n = work.ends[places.size]
            active += n
            for a in work.values[:n]:
                size += abs(np.float64(a))
    work.tallies[tile, SUM], work.tallies[tile, ACTIVE], work.tallies[tile, UPHILL] = size, active, uphill


@njit(nogil=True, error_model="numpy")
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
            active += a != ZERO
        work.tallies[tile, SUM], work.tallies[tile, ACTIVE] = size, active
    return squares, total(work.tallies, SUM), total(work.tallies, ACTIVE)


@njit(nogil=True, error_model="numpy")
def sums_of_step(s: Shape, work: Scratch) -> tuple[float, float, float]:
    """Return sum error^2, sum |A| and the number of active units of the step just made."""
    squares = 0.0
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        squares += sum_squares(work.error[start : start + s.width])
    return squares, total(work.tallies, SUM), total(work.tallies, ACTIVE)


@njit(nogil=True, error_model="numpy")
def advance(
    images: Images, units: Units, model: Model, control: StepControl, new_image: bool, work: Scratch,
    record: StepSums, looks: Looks,
) -> int:  # fmt: skip
    """Make the steps of one slice whose sums `record` has room for, or fewer if it stops; return how many.

    All images but the first are updated in place; `new_image` says that the first is new. The sums are
    written where they are wanted or a time scale adapts; writing them changes no bit of the state. They must
    be wanted where looks are due.
    """
    c, s = model.cell, model.shape
    tiles, steps = work.strips.shape[0], int(record.wanted.size)
    seen = -1.0
    if control.adaptive and not new_image and steps > 0:
        seen = energy(control, sums_of_state(images.error, units.A, s, work))
    for step in range(steps):
        wanted, looked = control.adaptive or record.wanted[step], is_due(looks, step)
        last = step == steps - 1
        residual(images, 0, s.height, s, work.error)
        if c.rule == ACCELERATED:
            for tile in range(tiles):
                compare_tile(tile, units, model, work)
        e, gain = rates(c, control, seen, work.tallies)
        for tile in range(tiles):
            update_tile(tile, step == 0, last or looked, wanted, units, model, e, gain, work)
        restart(c, control, work.tallies)
        if wanted:
            found = sums_of_step(s, work)
            seen = energy(control, found)
            sums = record.sums[step]
            sums[0], sums[1], sums[2] = found
        join_strips(work.strips, 0, s.height, s, images.recon)
        if last or looked:
            crop(work.error, s, images.error)
        if looked:
            size, ends = total(work.tallies, SUM), last and looks.whole
            if look(ends, size, units.A, images, looks, model.weights, s, work):
                return step + 1
    return steps
