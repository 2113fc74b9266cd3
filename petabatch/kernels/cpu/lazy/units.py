"""The units of a chunk that are due in a step of `cpu_lazy`: which they are, their update, who is active."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.layout import WORD, Scratch, Shape
from petabatch.kernels.cpu.lazy.bound import room_to_sleep
from petabatch.kernels.cpu.lazy.layout import DecayTable, DueUnits, Features, LazyState
from petabatch.kernels.cpu.rules import Cell, transfer
from petabatch.kernels.cpu.simd import lowest_bit, pair_operations

_ZERO = np.float32(0)
_ALWAYS = np.float32(-np.inf)
_SHIFT, _BITS = np.uint64(WORD.bit_length() - 1), np.uint64(WORD - 1)
_, _, reached = pair_operations(WORD)


@njit(nogil=True, error_model="numpy", cache=True)
def list_due(
    n: int, f: int, count: int, base: int, row: int, state: LazyState, s: Shape, due: DueUnits
) -> int:
    """List the units of a feature whose alarm is reached, from entry `n` on; return the entry after.

    The chunk has `count` positions from `base` on, `row` is its first row.
    """
    start, lead = (row + f) * s.chunk, state.lead[0]
    for k in range(0, count, WORD):
        bits = reached(lead, state.slope, state.alarm, start + k, state.path, base + k)
        if k + WORD > count:
            bits &= (np.uint64(1) << np.uint64(count - k)) - np.uint64(1)
        while bits != 0:
            place = np.uint64(k + lowest_bit(bits))
            due.place[n], due.feature[n], due.unit[n] = place, np.uint64(f), np.uint64(start) + place
            n += 1
            bits &= bits - np.uint64(1)
    return n


@njit(nogil=True, error_model="numpy", cache=True)
def potential(product: Any, history: Any, fade: Any) -> Any:
    """Return V."""
    return product + history * fade


@njit(nogil=True, error_model="numpy", cache=True)
def update_due(
    count: int, first: int, age: int, state: LazyState, weights: Features, c: Cell, t: DecayTable,
    due: DueUnits, marks: Any,
) -> None:  # fmt: skip
    """Update `count` units of which products are known, set alarms, and mark who is active.

    The chunk's first position is `first`. All is read, then computed in vectors, then written.
    """
    fade, gain, lead, length = t.fade[age], c.own * t.gain[age], state.lead[0], weights.rows.shape[1]
    for i in range(count):
        k = np.uint64(i)  # Unsigned indices need no test for negative ones.
        unit, way = due.unit[k], state.path[np.uint64(first) + due.place[k]]
        history = state.history[unit] + gain * state.code[unit]
        state.history[unit] = history
        due.potential[k] = potential(due.product[k], history, fade)
        due.norm[k] = weights.norms[due.feature[k]]
        due.path[k], due.alarm[k] = way, lead * state.slope[unit] + way
    for i in range(count):
        a = transfer(due.potential[i], c)
        # Not -0, whose sign would tell when the unit was computed last.
        due.activity[i] = _ZERO if a == _ZERO else a
    for i in range(count):
        room = room_to_sleep(due.potential[i], due.product[i], due.norm[i], due.path[i], length, c)
        bell = due.alarm[i] + room / due.norm[i]
        due.alarm[i] = bell if due.activity[i] == _ZERO and room > _ZERO else _ALWAYS
    for i in range(count):
        k = np.uint64(i)
        unit, feature, a = due.unit[k], due.feature[k], due.activity[k]
        state.code[unit], state.alarm[unit] = a, due.alarm[k]
        marks[due.place[k], feature >> _SHIFT] |= np.uint64(a != _ZERO) << (feature & _BITS)


@njit(nogil=True, error_model="numpy", cache=True)
def list_marked(count: int, row: int, marks: Any, code: Any, s: Shape, work: Scratch) -> int:
    """List the active units of a chunk position by position, as `list_active` does; return their number."""
    n = 0
    for m in range(count):
        for word in range(marks.shape[1]):
            bits = marks[m, word]
            while bits != 0:
                f = word * WORD + lowest_bit(bits)
                work.active[n], work.values[n] = f, code[(row + f) * s.chunk + m]
                n += 1
                bits &= bits - np.uint64(1)
        work.ends[m + 1] = n
    return n
