"""The operation that calls a row function, chunk by chunk in the first cache."""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.addresses import call_at
from petabatch.kernels.cpu.arrays import bytes_of, copy
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.units import CHUNK, gather
from petabatch.kernels.cpu.program.views import address, depth_of, floats, longs
from petabatch.kernels.cpu.rows import ARRAYS, PARAMETERS, STEP, UNITS
from petabatch.kernels.operations.updates import RunRow


@operation(RunRow, stored=True)
def _run_row(op: Any, own: Any, sources: Any, factors: Any, arrays: Any, step: int) -> None:
    """Call a row function on all units, on what is added up for it."""
    activity, previous = floats(arrays, op.out, step), floats(arrays, op.out, step - 1)
    apart, deep = op.apart, depth_of(arrays, op.out) > 1
    table, room, buffers = longs(arrays, op.table), floats(arrays, op.buffers, 0), op.number_of_inputs
    nothing, before = room[buffers * CHUNK : (buffers + 1) * CHUNK], room[(buffers + 1) * CHUNK :]
    unused = room[:0]
    table[PARAMETERS], table[STEP] = own.ctypes.data, step
    for begin in range(0, activity.size, CHUNK):
        end = min(begin + CHUNK, activity.size)
        table[UNITS] = end - begin
        first = op.inputs[0]
        for buffer in range(buffers):
            spare, last = room[buffer * CHUNK : buffer * CHUNK + end - begin], op.inputs[1 + buffer]
            drive = nothing
            if last > first:
                drive = gather(arrays, sources, factors, first, last, op.out, step, begin, end, spare, unused)
            table[ARRAYS + buffer] = drive.ctypes.data
            first = last
        if deep and not apart:  # not before its own activity of long ago, in the same place, is read
            copy(previous[begin:end], activity[begin:end])
        # From a variable of the loop: counting from `op.arrays[0]`, the same number, costs 9 % of an update.
        for n in range(first, op.arrays[1]):
            place = address(arrays, sources[n, 0], step - sources[n, 1]) + bytes_of(room) * begin
            if sources[n, 1] > 0 and not deep:
                copy(previous[begin:end], before[: end - begin])
                place = before.ctypes.data
            table[ARRAYS + buffers + n - first] = place
        call_at(op.function, table.ctypes.data)
