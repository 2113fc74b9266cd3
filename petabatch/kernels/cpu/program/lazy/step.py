"""A step of a code that is lazily evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import add, copy, multiply
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.lazy.bound import (
    EPS,
    filter_drives,
    forget_snapshots,
    project_snapshot,
    project_sources,
    set_bounds,
    take_snapshot,
)
from petabatch.kernels.cpu.program.lazy.layout import (
    ACTIVE,
    BLOCK,
    COMPUTED,
    DUE,
    FACTOR_0,
    FACTOR_1,
    GAIN,
    GROUP,
    KNOWN,
    RESCALE,
    WASTED,
    E,
    Work,
    words,
    work_of,
)
from petabatch.kernels.cpu.program.lazy.units import (
    add_bounds,
    drive_listed,
    has_own,
    list_features,
    mark_due,
    norms_of,
    potential,
    predict,
    transpose,
    update_due,
)
from petabatch.kernels.cpu.program.records import lazy_in, operation
from petabatch.kernels.cpu.program.transport import nonzero_word
from petabatch.kernels.cpu.program.units import CHUNK, gather, rates
from petabatch.kernels.cpu.program.views import depth_of, doubles, floats, longs, unsigned
from petabatch.kernels.cpu.rules import leaky
from petabatch.kernels.cpu.sizes import WORD
from petabatch.kernels.operations.updates import UpdateLazily
from petabatch.kernels.rules import Cell

_COST = 0.6
"""Cost of a snapshot, in computations of all units one by one."""
_SMALLEST = 4e-5
"""`decay` at which G is rescaled, about exp(-10)."""
_ZERO = np.float32(0)


@operation(UpdateLazily, stored=True)
def _update_lazily(
    op: Any, cell: Cell, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int,
    begin: int, end: int,
) -> None:  # fmt: skip
    """Make parts of one step of a code: part 0, a part for each tile, the last part."""
    inputs, drive = (sources, factors), (drives, arrays, shapes)
    if begin == 0:
        _begin(op, cell, *inputs, *drive, step)
    for part in range(max(begin, 1), min(end, op.parts - 1)):
        _update_tile(part - 1, op, cell, *inputs, *drive, step)
    if end >= op.parts:
        _end(op, arrays, step)


@njit(nogil=True, error_model="numpy")
def _begin(
    op: Any, c: Cell, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int
) -> None:
    """Do what tiles depend on: whether the code is awake, F, snapshots, bounds, decay."""
    previous, kept = floats(arrays, op.out, step - 1), doubles(arrays, op.kept)
    awake, decay = longs(arrays, op.awake), doubles(arrays, op.decay)
    e, gain = c.e, c.gain
    if op.scale > 0:
        e, gain = rates(c, doubles(arrays, op.scale)[0], previous)
    kept[E], kept[GAIN], kept[RESCALE] = e, gain, -1.0
    if (step - 1) % op.display == 0:  # `Clock.begins`
        wakes = int(np.count_nonzero(previous) > op.most)
        if wakes == 1 and awake[0] == 0:
            _materialise(op, drives, arrays, shapes)
        awake[0] = wakes
    if awake[0] == 1:
        decay[0] = 0.0
        return
    if decay[0] == 0.0:
        copy(floats(arrays, op.potential, 0), floats(arrays, op.history, 0))
        forget_snapshots(op, drives, arrays)
        if depth_of(arrays, op.out) == 1:
            _drop_signs_of_zeros(previous)
        decay[0], kept[KNOWN] = 1.0, 0.0
    if kept[KNOWN] == 0.0:
        nf = op.features
        _mark_active(previous, 0, previous.size // nf, nf, unsigned(arrays, op.bits))
        kept[KNOWN] = 1.0
    if kept[DUE] != 0.0:
        take_snapshot(op, drives, arrays, shapes)
    x, y = filter_drives(op, sources, factors, drives, arrays, step, e, gain)
    set_bounds(op, drives, arrays, shapes, x, y)
    decay[0] *= np.float64(e)
    if decay[0] < _SMALLEST:
        kept[RESCALE], decay[0] = decay[0], 1.0


@njit(nogil=True, error_model="numpy")
def _drop_signs_of_zeros(activity: Any) -> None:
    """Replace -0 by 0: of silent units that stay asleep nothing is written."""
    for i in range(activity.size):
        if activity[i] == _ZERO:
            activity[i] = _ZERO


@njit(nogil=True, error_model="numpy")
def _mark_active(activity: Any, begin: int, end: int, nf: int, bits: Any) -> None:
    """Write which units of positions begin .. end are active."""
    each = words(nf)
    for m in range(begin, end):
        for word in range(each):
            bits[m * each + word] = nonzero_word(activity, m * nf + word * WORD, min(WORD, nf - word * WORD))


@njit(nogil=True, error_model="numpy")
def _bounds_of_tile(tile: int, op: Any, arrays: Any) -> tuple[int, int]:
    """Return the positions begin .. end of a tile."""
    positions = floats(arrays, op.out, 0).size // op.features
    if op.height == 0:
        return 0, positions
    return tile * op.height, min((tile + 1) * op.height, positions)


@njit(nogil=True, error_model="numpy")
def _update_tile(
    tile: int, op: Any, c: Cell, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int
) -> None:
    """Update a tile; tally how many units were computed, and how many are active."""
    begin, end = _bounds_of_tile(tile, op, arrays)
    kept, tallies = doubles(arrays, op.kept), doubles(arrays, op.tallies)
    ends, inputs, drive = (begin, end), (sources, factors), (drives, arrays, shapes)
    computed = (end - begin) * op.features
    if longs(arrays, op.awake)[0] == 1:
        active = _compute_all(tile, *ends, op, *inputs, *drive, step, c)
    else:
        if kept[DUE] != 0.0:
            nf = op.features
            project_snapshot(op, *drive, tile, begin * nf, end * nf)
        computed, active = _compute_due(*ends, op, *inputs, *drive, step, c)
    tallies[2 * tile], tallies[2 * tile + 1] = computed, active


@njit(nogil=True, error_model="numpy")
def _end(op: Any, arrays: Any, step: int) -> None:
    """Count, and decide whether the next step begins with a snapshot."""
    kept, tallies = doubles(arrays, op.kept), doubles(arrays, op.tallies)
    computed, active = 0.0, 0.0
    for tile in range(op.parts - 2):
        computed, active = computed + tallies[2 * tile], active + tallies[2 * tile + 1]
    kept[COMPUTED] += computed
    kept[ACTIVE] += active
    kept[DUE] = 0.0
    if longs(arrays, op.awake)[0] == 0:
        kept[WASTED] += computed - active
        worth, left = _COST * floats(arrays, op.out, 0).size, -step % op.display
        kept[DUE] = np.float64(kept[WASTED] > worth and (computed - active) * left > worth)


@njit(nogil=True, error_model="numpy")
def _compute_all(
    tile: int, begin: int, end: int, op: Any, sources: Any, factors: Any, drives: Any, arrays: Any,
    shapes: Any, step: int, c: Cell,
) -> int:  # fmt: skip
    """Compute all units of a tile by dense products, with V up to date; return how many are active."""
    nf, kept = op.features, doubles(arrays, op.kept)
    e, gain = np.float32(kept[E]), np.float32(kept[GAIN])
    u, v = begin * nf, end * nf
    arrived = project_sources(op, sources, factors, drives, arrays, shapes, step, tile, u, v)
    activity, previous = floats(arrays, op.out, step), floats(arrays, op.out, step - 1)
    V, buffers = floats(arrays, op.potential, 0), work_of(op, arrays).buffers
    for some in range(u, v, CHUNK):
        stop = min(some + CHUNK, v)
        spare, other = buffers[: stop - some], buffers[buffers.size // 2 :][: stop - some]
        drive = arrived[some - u : stop - u]
        if op.sources[1] > op.sources[0]:
            more = gather(
                arrays, sources, factors, op.sources[0], op.sources[1], op.out, step, some, stop, spare, other
            )  # fmt: skip
            add(more, np.float32(1), drive)
        if depth_of(arrays, op.out) > 1:
            copy(previous[some:stop], activity[some:stop])
        leaky(drive, activity[some:stop], V[some:stop], e, gain, c)
    _mark_active(activity, begin, end, nf, unsigned(arrays, op.bits))
    return int(np.count_nonzero(activity[u:v]))


@njit(nogil=True, error_model="numpy")
def _compute_due(
    begin: int, end: int, op: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any,
    step: int, c: Cell,
) -> tuple[int, int]:  # fmt: skip
    """Compute the units of a tile that are due; return how many they are, and how many are active."""
    activity, previous = floats(arrays, op.out, step), floats(arrays, op.out, step - 1)
    history, kept, nf = floats(arrays, op.history, 0), doubles(arrays, op.kept), op.features
    work, active, bits = work_of(op, arrays), 0, unsigned(arrays, op.bits)
    if kept[RESCALE] >= 0.0:
        multiply(np.float32(kept[RESCALE]), history[begin * nf : end * nf])
    decay = np.float32(doubles(arrays, op.decay)[0])
    gain = np.float32(kept[GAIN] / doubles(arrays, op.decay)[0])
    most, computed = GROUP if not has_own(op, drives, arrays) else BLOCK * nf, 0
    if op.sources[1] > op.sources[0]:
        _add_inputs(op, sources, factors, arrays, step, begin * nf, end * nf, gain, work)
    if depth_of(arrays, op.out) > 1:  # only now: the code may see what it did as long ago as it keeps
        activity[begin * nf : end * nf] = _ZERO
    work.limits[:] = c.curve.threshold * np.float32(1 - 32 * EPS)
    for base in range(begin, end, BLOCK):
        stop = min(base + BLOCK, end)
        for some in range(base, stop, WORD):
            till, place = min(some + WORD, stop), (some - base) // WORD * nf
            _mark_word(op, drives, arrays, some, till, decay, c, work)
            for f in range(0, nf, WORD):
                transpose(work.mask[f : f + WORD])
            copy(work.mask, work.bits[place : place + nf])
        listed, f = work.bits[: -(-(stop - base) // WORD) * nf], 0
        while f < nf:
            first = f
            n, f = list_features(listed, f, nf, base, most, work.places, work.units, work.ends)
            drive_listed(first, f, n, base, op, drives, arrays, shapes, work)
            active += update_due(n, base, nf, gain, decay, previous, history, c, work, activity, bits)
            computed += n
    return computed, active


@njit(nogil=True, error_model="numpy")
def _mark_word(
    op: Any, drives: Any, arrays: Any, begin: int, end: int, decay: Any, c: Cell, work: Work
) -> None:  # fmt: skip
    """Mark which units of positions begin .. end, WORD of them at most, are due."""
    history, kept, nf = floats(arrays, op.history, 0), doubles(arrays, op.kept), op.features
    snapshots, bits, each = floats(arrays, op.products, 0), unsigned(arrays, op.bits), words(nf)
    first, second = snapshots[: history.size], snapshots[history.size :]
    a, b, known = np.float32(kept[FACTOR_0]), np.float32(kept[FACTOR_1]), work.known[:nf]
    norms, pitch, bounds = norms_of(op, drives, arrays, op.drives[0])
    work.mask[:] = 0
    for m in range(begin, end):
        u, v = m * nf, (m + 1) * nf
        predict(first[u:v], second[u:v], a, b, decay, history[u:v], c.curve.signed, known)
        if op.drives[1] - op.drives[0] > 1:
            add_bounds(known, m, op, drives, arrays)
        mark_due(
            work.known, nf, m - begin, work.limits, norms[m * pitch :], bounds[m], bits[m * each :], work.mask
        )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def _add_inputs(
    op: Any, sources: Any, factors: Any, arrays: Any, step: int, begin: int, end: int, gain: Any, work: Work
) -> None:  # fmt: skip
    """Add one-to-one inputs to G of units begin .. end."""
    history, buffers = floats(arrays, op.history, 0), work.buffers
    for some in range(begin, end, CHUNK):
        stop = min(some + CHUNK, end)
        spare, other = buffers[: stop - some], buffers[buffers.size // 2 :][: stop - some]
        drive = gather(
            arrays, sources, factors, op.sources[0], op.sources[1], op.out, step, some, stop, spare, other
        )
        add(drive, gain, history[some:stop])


@njit(nogil=True, error_model="numpy")
def materialise(row: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Write V of all units of the code in a row of a program; nothing where it is up to date."""
    _materialise(lazy_in(row), drives, arrays, shapes)


@njit(nogil=True, error_model="numpy")
def _materialise(op: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Write V of all units, with the bits it had in the step; nothing where it is up to date."""
    V, history, nf = floats(arrays, op.potential, 0), floats(arrays, op.history, 0), op.features
    decay = np.float32(doubles(arrays, op.decay)[0])
    if decay == _ZERO:
        return
    work, positions = work_of(op, arrays), V.size // nf
    most = GROUP if not has_own(op, drives, arrays) else BLOCK * nf
    for base in range(0, positions, BLOCK):
        count, n, first = min(BLOCK, positions - base), 0, 0
        for f in range(nf):
            for place in range(count):
                work.places[n], work.units[n] = place, (base + place) * nf + f
                n += 1
            work.ends[f] = n
            if n >= most or f == nf - 1:
                drive_listed(first, f + 1, n, base, op, drives, arrays, shapes, work)
                for i in range(n):
                    unit = work.units[i]
                    V[unit] = potential(work.found[i], history[unit], decay)
                n, first = 0, f + 1
