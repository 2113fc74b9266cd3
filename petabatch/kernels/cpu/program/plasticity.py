"""Events of single synapses, compiled: a row function on chunks of the synapses of units that spike."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.addresses import call_at
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.units import CHUNK
from petabatch.kernels.cpu.program.views import floats, ints, longs
from petabatch.kernels.cpu.rows import ARRAYS, PARAMETERS, STEP, UNITS
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.operations.plasticity import (
    ONE,
    OTHER,
    OWN,
    SINCE_SYNAPSE,
    SYNAPSE,
    RunEvents,
)


@njit(nogil=True, error_model="numpy")
def _gather(arrays: Any, number: int, kind: int, step: int, places: Any, out: Any) -> None:
    """Write the values of an array at some synapses or units, or the steps since they have changed."""
    if kind >= SINCE_SYNAPSE:
        # Modulo 2^32 and not negative, so that no run is too long: traces at rest do not grow to 0 * inf.
        now, changed, at = np.int32(step), ints(arrays, number), places[kind - SINCE_SYNAPSE]
        for i in range(out.size):
            out[i] = out.dtype.type(np.uint32(now - changed[np.uint32(at[i])]))
    elif kind == ONE:
        out[:] = floats(arrays, number, step)[0]
    else:
        values, at = floats(arrays, number, step), places[kind]
        for i in range(out.size):
            out[i] = values[np.uint32(at[i])]


@njit(nogil=True, error_model="numpy")
def _call(
    function: int, first: int, last: int, changing: int, stamped: Any, kind: int, sources: Any, arrays: Any,
    step: int, table: Any, buffers: Any, places: Any,
) -> Any:  # fmt: skip
    """Call a row function on a chunk of synapses or units; return what they deliver.

    `places` `[3, n]` are the synapses, their units that spike, the other units, by `kind` of an array.
    """
    n, count = places.shape[1], last - first
    for k in range(count):
        out = buffers[k * CHUNK : k * CHUNK + n]
        _gather(arrays, sources[first + k, 0], sources[first + k, 2], step, places, out)
        table[ARRAYS + k] = out.ctypes.data
    delivered = buffers[count * CHUNK : count * CHUNK + n]
    table[ARRAYS + count], table[UNITS] = delivered.ctypes.data, n
    call_at(function, table.ctypes.data)
    for k in range(changing):
        values, at = floats(arrays, sources[first + k, 0], step), places[sources[first + k, 2]]
        for i in range(n):
            values[np.uint32(at[i])] = buffers[k * CHUNK + i]
    if stamped.size > 0:
        at = places[kind]
        for i in range(n):
            stamped[np.uint32(at[i])] = step
    return delivered


@njit(nogil=True, error_model="numpy")
def _late(order: Any, delays: Any, first: int, last: int, steps: int) -> tuple[int, int]:
    """Return the range of synapses, sorted by delay, whose delay is `steps`."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if delays[order[middle]] < steps:
            low = middle + 1
        else:
            high = middle
    end = low
    while end < last and delays[order[end]] == steps:
        end += 1
    return low, end


@operation(RunEvents, stored=True)
def _run_events(op: Any, own: Any, sources: Any, arrays: Any, step: int) -> None:
    """Make the events of the units that have spiked, in the order of the units, then of their synapses."""
    starts, order, other = longs(arrays, op.starts), ints(arrays, op.order), ints(arrays, op.others)
    units, values, ends = ints(arrays, op.active), floats(arrays, op.values, 0), ints(arrays, op.ends)
    delays, changed, out = ints(arrays, op.delays), ints(arrays, op.changed), floats(arrays, op.out, step)
    table, buffers = longs(arrays, op.table), floats(arrays, op.buffers, 0)
    places, carried = ints(arrays, op.places).reshape((3, CHUNK)), floats(arrays, op.carried, 0)
    if op.delivers:
        out[:] = ZERO
    table[PARAMETERS], table[STEP] = own.ctypes.data, step
    first, last = op.of_synapses
    n = 0
    for late in range(op.longest + 1):
        place = 1 + 2 * ((step - op.source[1] - late) % (ends.size // 2))
        for m in range(ends[place], ends[place + 1]):
            unit = units[m]
            begin, end = starts[unit], starts[unit + 1]
            if op.longest > 0:
                begin, end = _late(order, delays, begin, end, late)
            for k in range(np.uint64(begin), np.uint64(end)):
                synapse = order[k] if order.size > 0 else np.int32(k)
                places[SYNAPSE, n], places[OWN, n], carried[n] = synapse, unit, values[m]
                places[OTHER, n] = other[k] if op.ordered else other[np.uint32(synapse)]
                n += 1
                if n == CHUNK:
                    delivered = _call(
                        op.functions[0], first, last, op.changing[0], changed, SYNAPSE, sources, arrays,
                        step, table, buffers, places,
                    )  # fmt: skip
                    if op.delivers:
                        _deliver(delivered, carried, places[OTHER], out)
                    n = 0
    if n > 0:
        some = places[:, :n]
        delivered = _call(
            op.functions[0], first, last, op.changing[0], changed, SYNAPSE, sources, arrays, step, table,
            buffers, some,
        )  # fmt: skip
        if op.delivers:
            _deliver(delivered, carried, some[OTHER], out)
    if op.functions[1] != 0:
        place = 1 + 2 * ((step - op.source[1]) % (ends.size // 2))
        fired, noted = units[ends[place] : ends[place + 1]], ints(arrays, op.changed_units)
        first, last = op.of_units
        for begin in range(0, fired.size, CHUNK):
            n = min(CHUNK, fired.size - begin)
            places[OWN, :n] = fired[begin : begin + n]
            _call(
                op.functions[1], first, last, op.changing[1], noted, OWN, sources, arrays, step, table,
                buffers, places[:, :n],
            )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def _deliver(delivered: Any, carried: Any, targets: Any, out: Any) -> None:
    for i in range(delivered.size):
        out[np.uint32(targets[i])] += carried[i] * delivered[i]
