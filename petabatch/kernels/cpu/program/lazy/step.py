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
from petabatch.kernels.cpu.program.table import (
    AWAKE,
    BITS,
    DECAY,
    DISPLAY,
    FEATURES,
    HEIGHT,
    HISTORY,
    KEPT,
    MOST,
    OUT,
    PARTS,
    POTENTIAL,
    PRODUCTS,
    TALLIES,
    A,
    B,
    C,
    D,
    G,
)
from petabatch.kernels.cpu.program.transport import nonzero_word
from petabatch.kernels.cpu.program.units import CHUNK, FACTOR, cell_of, gather, rates
from petabatch.kernels.cpu.program.units import GAIN as RATE
from petabatch.kernels.cpu.program.views import DEPTH, doubles, floats, longs, unsigned
from petabatch.kernels.cpu.rules import leaky
from petabatch.kernels.cpu.sizes import WORD
from petabatch.kernels.rules import Cell

_COST = 0.6
"""Cost of a snapshot, in computations of all units one by one."""
_SMALLEST = 4e-5
"""`decay` at which G is rescaled, about exp(-10)."""
_ZERO = np.float32(0)


@njit(nogil=True, error_model="numpy")
def update_lazily(
    row: Any, own: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int,
    first: int, last: int,
) -> None:  # fmt: skip
    """Make parts first .. last of one step of a code: part 0, a part for each tile, the last part."""
    inputs, drive = (sources, factors), (drives, arrays, shapes)
    if first == 0:
        _begin(row, own, *inputs, *drive, step)
    for part in range(max(first, 1), min(last, row[PARTS] - 1)):
        _update_tile(part - 1, row, own, *inputs, *drive, step)
    if last >= row[PARTS]:
        _end(row, arrays, step)


@njit(nogil=True, error_model="numpy")
def _begin(
    row: Any, own: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int
) -> None:
    """Do what tiles depend on: whether the code is awake, F, snapshots, bounds, decay."""
    previous, kept = floats(arrays, row[OUT], step - 1), doubles(arrays, row[KEPT])
    awake, decay = longs(arrays, row[AWAKE]), doubles(arrays, row[DECAY])
    e, gain = np.float32(own[FACTOR]), np.float32(own[RATE])
    if row[G] > 0:
        e, gain = rates(own, doubles(arrays, row[G])[0])
    kept[E], kept[GAIN], kept[RESCALE] = e, gain, -1.0
    if (step - 1) % row[DISPLAY] == 0:  # `Clock.begins`
        wakes = int(np.count_nonzero(previous) > row[MOST])
        if wakes == 1 and awake[0] == 0:
            materialise(row, drives, arrays, shapes)
        awake[0] = wakes
    if awake[0] == 1:
        decay[0] = 0.0
        return
    if decay[0] == 0.0:
        copy(floats(arrays, row[POTENTIAL], 0), floats(arrays, row[HISTORY], 0))
        forget_snapshots(row, drives, arrays)
        if arrays[row[OUT], DEPTH] == 1:
            _drop_signs_of_zeros(previous)
        decay[0], kept[KNOWN] = 1.0, 0.0
    if kept[KNOWN] == 0.0:
        nf = row[FEATURES]
        _mark_active(previous, 0, previous.size // nf, nf, unsigned(arrays, row[BITS]))
        kept[KNOWN] = 1.0
    if kept[DUE] != 0.0:
        take_snapshot(row, drives, arrays, shapes)
    x, y = filter_drives(row, sources, factors, drives, arrays, step, e, gain)
    set_bounds(row, drives, arrays, shapes, x, y)
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
def _bounds_of_tile(tile: int, row: Any, arrays: Any) -> tuple[int, int]:
    """Return the positions begin .. end of a tile."""
    positions = floats(arrays, row[OUT], 0).size // row[FEATURES]
    if row[HEIGHT] == 0:
        return 0, positions
    return tile * row[HEIGHT], min((tile + 1) * row[HEIGHT], positions)


@njit(nogil=True, error_model="numpy")
def _update_tile(
    tile: int, row: Any, own: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any,
    step: int,
) -> None:  # fmt: skip
    """Update a tile; tally how many units were computed, and how many are active."""
    begin, end = _bounds_of_tile(tile, row, arrays)
    kept, tallies = doubles(arrays, row[KEPT]), doubles(arrays, row[TALLIES])
    ends, inputs, drive = (begin, end), (sources, factors), (drives, arrays, shapes)
    c, computed = cell_of(own), (end - begin) * row[FEATURES]
    if longs(arrays, row[AWAKE])[0] == 1:
        active = _compute_all(tile, *ends, row, *inputs, *drive, step, c)
    else:
        if kept[DUE] != 0.0:
            nf = row[FEATURES]
            project_snapshot(row, *drive, tile, begin * nf, end * nf)
        computed, active = _compute_due(*ends, row, *inputs, *drive, step, c)
    tallies[2 * tile], tallies[2 * tile + 1] = computed, active


@njit(nogil=True, error_model="numpy")
def _end(row: Any, arrays: Any, step: int) -> None:
    """Count, and decide whether the next step begins with a snapshot."""
    kept, tallies = doubles(arrays, row[KEPT]), doubles(arrays, row[TALLIES])
    computed, active = 0.0, 0.0
    for tile in range(row[PARTS] - 2):
        computed, active = computed + tallies[2 * tile], active + tallies[2 * tile + 1]
    kept[COMPUTED] += computed
    kept[ACTIVE] += active
    kept[DUE] = 0.0
    if longs(arrays, row[AWAKE])[0] == 0:
        kept[WASTED] += computed - active
        worth, left = _COST * floats(arrays, row[OUT], 0).size, -step % row[DISPLAY]
        kept[DUE] = np.float64(kept[WASTED] > worth and (computed - active) * left > worth)


@njit(nogil=True, error_model="numpy")
def _compute_all(
    tile: int, begin: int, end: int, row: Any, sources: Any, factors: Any, drives: Any, arrays: Any,
    shapes: Any, step: int, c: Cell,
) -> int:  # fmt: skip
    """Compute all units of a tile by dense products, with V up to date; return how many are active."""
    nf, kept = row[FEATURES], doubles(arrays, row[KEPT])
    e, gain = np.float32(kept[E]), np.float32(kept[GAIN])
    u, v = begin * nf, end * nf
    arrived = project_sources(row, sources, factors, drives, arrays, shapes, step, tile, u, v)
    activity, previous = floats(arrays, row[OUT], step), floats(arrays, row[OUT], step - 1)
    V, buffers = floats(arrays, row[POTENTIAL], 0), work_of(row, arrays).buffers
    for some in range(u, v, CHUNK):
        stop = min(some + CHUNK, v)
        spare, other = buffers[: stop - some], buffers[buffers.size // 2 :][: stop - some]
        drive = arrived[some - u : stop - u]
        if row[B] > row[A]:
            more = gather(
                arrays, sources, factors, row[A], row[B], row[OUT], step, some, stop, spare, other
            )  # fmt: skip
            add(more, np.float32(1), drive)
        if arrays[row[OUT], DEPTH] > 1:
            copy(previous[some:stop], activity[some:stop])
        leaky(drive, activity[some:stop], V[some:stop], e, gain, c)
    _mark_active(activity, begin, end, nf, unsigned(arrays, row[BITS]))
    return int(np.count_nonzero(activity[u:v]))


@njit(nogil=True, error_model="numpy")
def _compute_due(
    begin: int, end: int, row: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any,
    step: int, c: Cell,
) -> tuple[int, int]:  # fmt: skip
    """Compute the units of a tile that are due; return how many they are, and how many are active."""
    activity, previous = floats(arrays, row[OUT], step), floats(arrays, row[OUT], step - 1)
    history, kept, nf = floats(arrays, row[HISTORY], 0), doubles(arrays, row[KEPT]), row[FEATURES]
    work, active, bits = work_of(row, arrays), 0, unsigned(arrays, row[BITS])
    if kept[RESCALE] >= 0.0:
        multiply(np.float32(kept[RESCALE]), history[begin * nf : end * nf])
    decay = np.float32(doubles(arrays, row[DECAY])[0])
    gain = np.float32(kept[GAIN] / doubles(arrays, row[DECAY])[0])
    most, computed = GROUP if not has_own(row, drives, arrays) else BLOCK * nf, 0
    if row[B] > row[A]:
        _add_inputs(row, sources, factors, arrays, step, begin * nf, end * nf, gain, work)
    if arrays[row[OUT], DEPTH] > 1:  # only now: the code may see what it did as long ago as it keeps
        activity[begin * nf : end * nf] = _ZERO
    work.limits[:] = c.threshold * np.float32(1 - 32 * EPS)
    for base in range(begin, end, BLOCK):
        stop = min(base + BLOCK, end)
        for some in range(base, stop, WORD):
            till, place = min(some + WORD, stop), (some - base) // WORD * nf
            _mark_word(row, drives, arrays, some, till, decay, c, work)
            for f in range(0, nf, WORD):
                transpose(work.mask[f : f + WORD])
            copy(work.mask, work.bits[place : place + nf])
        listed, f = work.bits[: -(-(stop - base) // WORD) * nf], 0
        while f < nf:
            first = f
            n, f = list_features(listed, f, nf, base, most, work.places, work.units, work.ends)
            drive_listed(first, f, n, base, row, drives, arrays, shapes, work)
            active += update_due(n, base, nf, gain, decay, previous, history, c, work, activity, bits)
            computed += n
    return computed, active


@njit(nogil=True, error_model="numpy")
def _mark_word(
    row: Any, drives: Any, arrays: Any, begin: int, end: int, decay: Any, c: Cell, work: Work
) -> None:  # fmt: skip
    """Mark which units of positions begin .. end, WORD of them at most, are due."""
    history, kept, nf = floats(arrays, row[HISTORY], 0), doubles(arrays, row[KEPT]), row[FEATURES]
    snapshots, bits, each = floats(arrays, row[PRODUCTS], 0), unsigned(arrays, row[BITS]), words(nf)
    first, second = snapshots[: history.size], snapshots[history.size :]
    a, b, known = np.float32(kept[FACTOR_0]), np.float32(kept[FACTOR_1]), work.known[:nf]
    norms, pitch, bounds = norms_of(row, drives, arrays, row[C])
    work.mask[:] = 0
    for m in range(begin, end):
        u, v = m * nf, (m + 1) * nf
        predict(first[u:v], second[u:v], a, b, decay, history[u:v], c.signed, known)
        if row[D] - row[C] > 1:
            add_bounds(known, m, row, drives, arrays)
        mark_due(
            work.known, nf, m - begin, work.limits, norms[m * pitch :], bounds[m], bits[m * each :], work.mask
        )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def _add_inputs(
    row: Any, sources: Any, factors: Any, arrays: Any, step: int, begin: int, end: int, gain: Any, work: Work
) -> None:  # fmt: skip
    """Add one-to-one inputs to G of units begin .. end."""
    history, buffers = floats(arrays, row[HISTORY], 0), work.buffers
    for some in range(begin, end, CHUNK):
        stop = min(some + CHUNK, end)
        spare, other = buffers[: stop - some], buffers[buffers.size // 2 :][: stop - some]
        drive = gather(arrays, sources, factors, row[A], row[B], row[OUT], step, some, stop, spare, other)
        add(drive, gain, history[some:stop])


@njit(nogil=True, error_model="numpy")
def materialise(row: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Write V of all units, with the bits it had in the step; nothing where it is up to date."""
    V, history, nf = floats(arrays, row[POTENTIAL], 0), floats(arrays, row[HISTORY], 0), row[FEATURES]
    decay = np.float32(doubles(arrays, row[DECAY])[0])
    if decay == _ZERO:
        return
    work, positions = work_of(row, arrays), V.size // nf
    most = GROUP if not has_own(row, drives, arrays) else BLOCK * nf
    for base in range(0, positions, BLOCK):
        count, n, first = min(BLOCK, positions - base), 0, 0
        for f in range(nf):
            for place in range(count):
                work.places[n], work.units[n] = place, (base + place) * nf + f
                n += 1
            work.ends[f] = n
            if n >= most or f == nf - 1:
                drive_listed(first, f + 1, n, base, row, drives, arrays, shapes, work)
                for i in range(n):
                    unit = work.units[i]
                    V[unit] = potential(work.found[i], history[unit], decay)
                n, first = 0, f + 1
