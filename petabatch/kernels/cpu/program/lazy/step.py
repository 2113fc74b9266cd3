"""A step of a code that is lazily evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.lazy.bound import (
    EPS,
    filter_drives,
    project_all,
    set_bounds,
    take_snapshot,
)
from petabatch.kernels.cpu.program.lazy.layout import ACTIVE, BLOCK, COMPUTED, WASTED, Work, work_of
from petabatch.kernels.cpu.program.lazy.units import (
    activities,
    add_bounds,
    integrate,
    integrate_all,
    list_due,
    mark_due,
    norms_of,
    potentials,
    transpose,
)
from petabatch.kernels.cpu.program.table import (
    AWAKE,
    DISPLAY,
    FEATURES,
    HISTORY,
    KEPT,
    MOST,
    OUT,
    POTENTIAL,
    PRODUCTS,
    A,
    B,
    C,
    D,
    G,
)
from petabatch.kernels.cpu.program.units import CHUNK, FACTOR, GAIN, cell_of, gather, rates
from petabatch.kernels.cpu.program.views import doubles, floats, longs
from petabatch.kernels.cpu.sizes import WORD
from petabatch.kernels.rules import Cell

_COST = 0.6
"""Cost of a snapshot, in computations of all units one by one."""
_ZERO = np.float32(0)


@njit(nogil=True, error_model="numpy")
def update_lazily(
    row: Any, own: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int
) -> None:
    """Make one step of a code."""
    previous, awake, kept = (
        floats(arrays, row[OUT], step - 1), longs(arrays, row[AWAKE]), doubles(arrays, row[KEPT])
    )  # fmt: skip
    e, gain = np.float32(own[FACTOR]), np.float32(own[GAIN])
    if row[G] > 0:
        e, gain = rates(own, doubles(arrays, row[G])[0])
    if (step - 1) % row[DISPLAY] == 0:
        awake[0] = int(np.count_nonzero(previous) > row[MOST])
    c, inputs, drive = cell_of(own), (sources, factors), (drives, arrays, shapes)
    first, second = filter_drives(row, *inputs, *drive, step, e, gain)
    computed, active = previous.size, 0
    if awake[0] == 1:
        active = _compute_all(row, *inputs, *drive, step, e, gain, c)
    else:
        a, b = set_bounds(row, *drive, first, second)
        computed, active = _compute_due(row, *inputs, *drive, step, e, gain, a, b, c)
        kept[WASTED] += computed - active
        worth, left = _COST * previous.size, -step % row[DISPLAY]
        if kept[WASTED] > worth and float(computed - active) * left > worth:
            take_snapshot(row, *drive)
    kept[COMPUTED] += computed
    kept[ACTIVE] += active


@njit(nogil=True, error_model="numpy")
def _compute_all(
    row: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int, e: Any, gain: Any,
    c: Cell,
) -> int:  # fmt: skip
    """Compute all units; return how many are active."""
    activity, previous = floats(arrays, row[OUT], step), floats(arrays, row[OUT], step - 1)
    history, buffers = floats(arrays, row[HISTORY], 0), work_of(row, arrays).buffers
    V = project_all(row, drives, arrays, shapes)
    for begin in range(0, activity.size, CHUNK):
        end = min(begin + CHUNK, activity.size)
        spare, other = buffers[: end - begin], buffers[buffers.size // 2 :][: end - begin]
        drive = gather(arrays, sources, factors, row[A], row[B], row[OUT], step, begin, end, spare, other)
        integrate_all(drive, previous[begin:end], e, gain, c, history[begin:end], V[begin:end])
        activities(V[begin:end], c, activity[begin:end])
    return int(np.count_nonzero(activity))


@njit(nogil=True, error_model="numpy")
def _compute_due(
    row: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int, e: Any, gain: Any,
    a: Any, b: Any, c: Cell,
) -> tuple[int, int]:  # fmt: skip
    """Compute the units that are due; return how many they are, and how many are active."""
    activity, work, computed, active = floats(arrays, row[OUT], step), work_of(row, arrays), 0, 0
    nf = row[FEATURES]
    positions = activity.size // nf
    work.limits[:] = c.threshold * np.float32(1 - 32 * EPS)
    for base in range(0, positions, BLOCK):
        end = min(base + BLOCK, positions)
        for begin in range(base, end, WORD):
            stop, place = min(begin + WORD, end), (begin - base) // WORD * nf
            _mark_word(row, sources, factors, drives, arrays, step, begin, stop, e, gain, a, b, c, work)
            activity[begin * nf : stop * nf] = 0
            for f in range(0, nf, WORD):
                transpose(work.mask[f : f + WORD])
            copy(work.mask, work.bits[place : place + nf])
        count = -(-(end - base) // WORD)
        n = list_due(work.bits[: count * nf], base, nf, work.units, work.places, work.ends)
        potentials(n, base, row, drives, arrays, shapes, work, work.found)
        activities(work.found[:n], c, work.values[:n])
        for i in range(n):
            activity[work.units[i]] = work.values[i]
            active += work.values[i] != _ZERO
        computed += n
    return computed, active


@njit(nogil=True, error_model="numpy")
def _mark_word(
    row: Any, sources: Any, factors: Any, drives: Any, arrays: Any, step: int, begin: int, end: int, e: Any,
    gain: Any, a: Any, b: Any, c: Cell, work: Work,
) -> None:  # fmt: skip
    """Update H of positions begin .. end, WORD of them at most, and mark which of their units are due."""
    previous, history = floats(arrays, row[OUT], step - 1), floats(arrays, row[HISTORY], 0)
    snapshots, nf, buffers = floats(arrays, row[PRODUCTS], 0), row[FEATURES], work.buffers
    first, second = snapshots[: history.size], snapshots[history.size :]
    together, known = max(1, CHUNK // nf), work.known[:nf]
    norms, pitch, bounds = norms_of(row, drives, arrays, row[C])
    work.mask[:] = 0
    for some in range(begin, end, together):
        stop = min(some + together, end)
        u, v = some * nf, stop * nf
        spare, other = buffers[: v - u], buffers[buffers.size // 2 :][: v - u]
        drive = gather(arrays, sources, factors, row[A], row[B], row[OUT], step, u, v, spare, other)
        for m in range(some, stop):
            u, v, d = m * nf, (m + 1) * nf, (m - some) * nf
            integrate(
                drive[d : d + nf], previous[u:v], e, gain, first[u:v], second[u:v], a, b, c, history[u:v],
                known,
            )  # fmt: skip
            if row[D] - row[C] > 1:
                add_bounds(known, m, row, drives, arrays)
            mark_due(work.known, nf, m - begin, work.limits, norms[m * pitch :], bounds[m], work.mask)


@njit(nogil=True, error_model="numpy")
def materialise(row: Any, drives: Any, arrays: Any, shapes: Any) -> None:
    """Write V of all units, with the bits it had in the step."""
    V, history = floats(arrays, row[POTENTIAL], 0), floats(arrays, row[HISTORY], 0)
    if V.size > 0 and longs(arrays, row[AWAKE])[0] == 1:
        found = project_all(row, drives, arrays, shapes)
        for i in range(V.size):
            V[i] = found[i] + history[i]
        return
    nf, work = row[FEATURES], work_of(row, arrays)
    positions = V.size // nf
    for base in range(0, positions, BLOCK):
        end, n = min(base + BLOCK, positions), 0
        for f in range(nf):
            for place in range(end - base):
                work.places[n], work.units[n] = place, (base + place) * nf + f
                n += 1
            work.ends[f] = n
        potentials(n, base, row, drives, arrays, shapes, work, work.found)
        for i in range(n):
            V[work.units[i]] = work.found[i]
