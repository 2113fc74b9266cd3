"""What single synapses carry, compiled: the work is that of the active units, listed once in a step.

Where most units are active, and all slices have the same synapses, several slices are made at once: what
waits for them lies side by side, slice after slice, so that a synapse is a vector operation. Each slice's
sums have the order, and so the bits, that they have in `scatter`: units that are not active add 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.table import (
    CODE,
    HISTORY,
    IN,
    LOOKBACK,
    OUT,
    TOGETHER,
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    H,
    Op,
)
from petabatch.kernels.cpu.program.transport import list_units
from petabatch.kernels.cpu.program.views import DEPTH, PLACE, SIZE, floats, ints, longs, pointer
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.cpu.simd import operations
from petabatch.kernels.cpu.sizes import ABREAST

_LIST, _SCATTER = int(Op.LIST), int(Op.SCATTER)
_ABREAST = operations(ABREAST)
_load, _add_to, _scaled = _ABREAST.load, _ABREAST.add_to, _ABREAST.scaled


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


@njit(nogil=True, error_model="numpy")
def scatter_together(row: Any, arrays: Any, step: int) -> None:
    """Make a SCATTER of all slices, between two calls of `carry_over`."""
    one = arrays[0]
    starts, targets = longs(one, row[B]), ints(one, row[C])
    weights, delays = floats(one, row[D], 0), ints(one, row[G])
    size, length = one[row[OUT], SIZE], one[row[OUT], DEPTH]
    pre, post, now, seen = starts.size - 1, size // row[A], step % length, step - row[LOOKBACK]
    units = row[A] * pre
    stride, end = np.uint64(size), np.uint64(size * length)
    for first in range(0, arrays.shape[0], ABREAST):
        slices = arrays[first : first + ABREAST]
        waiting, activity = _abreast(row, arrays, first)
        for w in range(slices.shape[0]):
            layer = floats(slices[w], row[H], seen)
            for unit in range(units):
                activity[unit * ABREAST + w] = layer[unit]
        arrived = (step - 1) % length * size * ABREAST
        waiting[arrived : arrived + size * ABREAST] = ZERO
        for n in range(units):
            position, unit = divmod(n, pre)
            a, here = _load(activity, n * ABREAST), np.uint64(now * size + position * post)
            for k in range(np.uint64(starts[unit]), np.uint64(starts[unit + 1])):
                at = here + np.uint32(targets[k])
                if length > 1:
                    at += np.uint32(delays[k]) * stride
                    if at >= end:
                        at -= end
                _add_to(waiting, np.int64(at * np.uint64(ABREAST)), _scaled(weights, np.int64(k), a))
        arrives = now * size * ABREAST
        for w in range(slices.shape[0]):
            out = floats(slices[w], row[OUT], step)
            for i in range(size):
                out[i] = waiting[arrives + i * ABREAST + w]


@njit(nogil=True, error_model="numpy")
def _abreast(row: Any, arrays: Any, first: int) -> Any:
    """Return what waits for `ABREAST` slices, `[lag, unit, slice]`, and room for their activities.

    They have the room of these slices, that of one after that of the other.
    """
    begin, size = arrays[first, row[HISTORY], PLACE], ABREAST * arrays[first, row[HISTORY], SIZE]
    room = carray(pointer(begin), (size,), np.float32)
    middle = ABREAST * arrays[first, row[OUT], SIZE] * arrays[first, row[OUT], DEPTH]
    return room[:middle], room[middle:]


@njit(nogil=True, error_model="numpy")
def carry_over(rows: Any, arrays: Any, apart: bool) -> None:
    """Put what waits for each slice side by side for `scatter_together`, or, `apart`, back to its slice."""
    for row in rows:
        if row[CODE] != _SCATTER or row[TOGETHER] == 0:
            continue
        for w in range(arrays.shape[0]):
            waiting, _ = _abreast(row, arrays, w - w % ABREAST)
            size = arrays[w, row[OUT], SIZE] * arrays[w, row[OUT], DEPTH]
            own = carray(pointer(arrays[w, row[OUT], PLACE]), (size,), np.float32)
            for i in range(size):
                if apart:
                    own[i] = waiting[i * ABREAST + w % ABREAST]
                else:
                    waiting[i * ABREAST + w % ABREAST] = own[i]
