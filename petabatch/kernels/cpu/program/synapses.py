"""Delivery by single synapses, compiled: the work is that of the active units, listed once in a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.table import CODE, IN, LOOKBACK, OUT, A, B, C, D, E, F, G, Op
from petabatch.kernels.cpu.program.transport import list_units
from petabatch.kernels.cpu.program.views import DEPTH, PLACE, SIZE, floats, ints, longs, pointer
from petabatch.kernels.cpu.rules import ZERO

_LIST = int(Op.LIST)


@njit(nogil=True, error_model="numpy")
def list_active(row: Any, arrays: Any, step: int) -> None:
    """Make a LIST; see `table.py`."""
    layer, units = floats(arrays, row[IN], step), ints(arrays, row[OUT])
    ends = ints(arrays, row[B])
    begin = ends[0]
    if begin + layer.size > units.size:
        begin = 0
    end = list_units(layer, 0, layer.size, begin, units, floats(arrays, row[A], 0))
    place = 1 + 2 * (step % (ends.size // 2))
    ends[0], ends[place], ends[place + 1] = end, begin, end


@njit(nogil=True, error_model="numpy")
def list_before(rows: Any, arrays: Any, step: int) -> None:
    """Make the lists of the steps up to `step` whose activities are kept, in all slices."""
    for w in range(arrays.shape[0]):
        for row in rows:
            if row[CODE] == _LIST:
                ints(arrays[w], row[B])[:] = 0
                for before in range(max(0, step + 1 - arrays[w, row[IN], DEPTH]), step + 1):
                    list_active(row, arrays[w], before)


@njit(nogil=True, error_model="numpy")
def scatter(row: Any, arrays: Any, step: int) -> None:
    """Make a SCATTER: add up the synapses of the active units, in the order of the units."""
    starts, targets = longs(arrays, row[B]), ints(arrays, row[C])
    weights, ends = floats(arrays, row[D], 0), ints(arrays, row[F])
    units, values = ints(arrays, row[IN]), floats(arrays, row[E], 0)
    place = 1 + 2 * ((step - row[LOOKBACK]) % (ends.size // 2))
    size, length, delays = arrays[row[OUT], SIZE], arrays[row[OUT], DEPTH], ints(arrays, row[G])
    out = carray(pointer(arrays[row[OUT], PLACE]), (size * length,), np.float32)
    pre, post, now = starts.size - 1, size // row[A], step % length
    out[(step - 1) % length * size : ((step - 1) % length + 1) * size] = ZERO  # it has arrived
    for n in range(ends[place], ends[place + 1]):
        position, unit = divmod(units[n], pre)
        a, begin = values[n], position * post
        # Unsigned: an index that may be negative costs more than the sum.
        first, last = np.uint64(starts[unit]), np.uint64(starts[unit + 1])
        if length == 1:
            there = out[begin : begin + post]
            for k in range(first, last):
                there[np.uint32(targets[k])] += a * weights[k]
            continue
        stride, end, here = np.uint64(size), np.uint64(size * length), np.uint64(now * size + begin)
        for k in range(first, last):
            at = here + np.uint32(delays[k]) * stride + np.uint32(targets[k])
            if at >= end:
                at -= end
            out[at] += a * weights[k]
