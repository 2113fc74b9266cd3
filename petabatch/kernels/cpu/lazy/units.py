"""The units of a chunk that are due in a lazy step: which they are, their update, the active ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.layout import Scratch, Shape
from petabatch.kernels.cpu.lazy.bound import threshold_margin
from petabatch.kernels.cpu.lazy.layout import ALWAYS, DueUnits, LazyModel, LazyScratch, LazyState
from petabatch.kernels.cpu.rules import ZERO, transfer
from petabatch.kernels.cpu.simd import lowest_bit, pair_operations
from petabatch.kernels.cpu.sizes import WORD

_SHIFT, _BITS = np.uint64(WORD.bit_length() - 1), np.uint64(WORD - 1)
_, _, below_mask = pair_operations(WORD)


@njit(nogil=True, error_model="numpy")
def list_due(
    n: int, f: int, count: int, base: int, row: int, state: LazyState, s: Shape, due: DueUnits
) -> int:
    """List the units of a feature whose wake level is reached, from entry `n` on; return the entry after.

    The chunk has `count` positions from `base` on, `row` is its first row.
    """
    start, progress = (row + f) * s.chunk, state.progress[0]
    for k in range(0, count, WORD):
        bits = below_mask(progress, state.slope, state.wake_level, start + k, state.path_length, base + k)
        if k + WORD > count:
            bits &= (np.uint64(1) << np.uint64(count - k)) - np.uint64(1)
        while bits != 0:
            place = np.uint64(k + lowest_bit(bits))
            due.place[n], due.feature[n], due.unit[n] = place, np.uint64(f), np.uint64(start) + place
            n += 1
            bits &= bits - np.uint64(1)
    return n


@njit(nogil=True, error_model="numpy")
def potential(product: Any, history: Any, decay: Any) -> Any:
    """Return V from w . (patch of F), G and e^age."""
    return product + history * decay


@njit(nogil=True, error_model="numpy")
def update_due(
    count: int, first: int, age: int, state: LazyState, model: LazyModel, lazy: LazyScratch
) -> None:
    """Update `count` due units whose products are known, set wake levels and the bits of active units.

    The chunk's first position is `first`. All is read, then computed in vectors, then written.
    """
    weights, c, table, _ = model
    due, active_bits, length = lazy.due, lazy.active_bits, weights.rows.shape[1]
    decay, gain, progress = table.powers[age], c.self_interaction * table.scaled_gain[age], state.progress[0]
    for i in range(count):
        k = np.uint64(i)  # Unsigned indices need no test for negative ones.
        unit, path_length = due.unit[k], state.path_length[np.uint64(first) + due.place[k]]
        history = state.history[unit] + gain * state.code[unit]
        state.history[unit] = history
        due.potential[k] = potential(due.product[k], history, decay)
        due.norm[k] = weights.norms[due.feature[k]]
        due.path_length[k], due.wake_level[k] = path_length, progress * state.slope[unit] + path_length
    for i in range(count):
        a = transfer(due.potential[i], c)
        # Not -0, whose sign would tell when the unit was computed last.
        due.activity[i] = ZERO if a == ZERO else a
    for i in range(count):
        norm, path_length = due.norm[i], due.path_length[i]
        room = threshold_margin(due.potential[i], due.product[i], norm, path_length, length, c)
        level = due.wake_level[i] + room / norm
        due.wake_level[i] = level if due.activity[i] == ZERO and room > ZERO else ALWAYS
    for i in range(count):
        k = np.uint64(i)
        unit, feature, a = due.unit[k], due.feature[k], due.activity[k]
        state.code[unit], state.wake_level[unit] = a, due.wake_level[k]
        active_bits[due.place[k], feature >> _SHIFT] |= np.uint64(a != ZERO) << (feature & _BITS)


@njit(nogil=True, error_model="numpy")
def list_active_units(count: int, row: int, active_bits: Any, code: Any, s: Shape, work: Scratch) -> int:
    """List the active units of a chunk as `convolution.list_active` does; return their number."""
    n = 0
    for m in range(count):
        for word in range(active_bits.shape[1]):
            bits = active_bits[m, word]
            while bits != 0:
                f = word * WORD + lowest_bit(bits)
                work.active[n], work.values[n] = f, code[(row + f) * s.chunk + m]
                n += 1
                bits &= bits - np.uint64(1)
        work.ends[m + 1] = n
    return n
