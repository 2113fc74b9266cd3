"""The operation that calls a row function, chunk by chunk in the first cache."""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.addresses import call_at
from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.table import IN, LOOKBACK, OUT, A, B, C, D, E, F
from petabatch.kernels.cpu.program.units import CHUNK, gather
from petabatch.kernels.cpu.program.views import DEPTH, address, floats, longs
from petabatch.kernels.cpu.rows import ARRAYS, PARAMETERS, STEP, UNITS


@njit(nogil=True, error_model="numpy")
def run_row(row: Any, own: Any, sources: Any, factors: Any, arrays: Any, step: int) -> None:
    """Make a ROW; see `table.py`."""
    activity, previous = floats(arrays, row[OUT], step), floats(arrays, row[OUT], step - 1)
    apart, deep = row[LOOKBACK] > 0, arrays[row[OUT], DEPTH] > 1
    table, room, buffers = longs(arrays, row[D]), floats(arrays, row[IN], 0), row[E]
    nothing, before = room[buffers * CHUNK : (buffers + 1) * CHUNK], room[(buffers + 1) * CHUNK :]
    unused = room[:0]
    table[PARAMETERS], table[STEP] = own.ctypes.data, step
    for begin in range(0, activity.size, CHUNK):
        end = min(begin + CHUNK, activity.size)
        table[UNITS] = end - begin
        first = row[A]
        for buffer in range(buffers):
            spare, last = room[buffer * CHUNK : buffer * CHUNK + end - begin], row[F + buffer]
            drive = nothing
            if last > first:
                drive = gather(
                    arrays, sources, factors, first, last, row[OUT], step, begin, end, spare, unused
                )
            table[ARRAYS + buffer] = drive.ctypes.data
            first = last
        if deep and not apart:  # not before its own activity of long ago, in the same place, is read
            copy(previous[begin:end], activity[begin:end])
        for n in range(first, row[B]):
            place = address(arrays, sources[n, 0], step - sources[n, 1]) + 4 * begin
            if sources[n, 1] > 0 and not deep:
                copy(previous[begin:end], before[: end - begin])
                place = before.ctypes.data
            table[ARRAYS + buffers + n - first] = place
        call_at(row[C], table.ctypes.data)
