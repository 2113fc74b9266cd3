"""The loop of a program, compiled: many steps of some slices in one call, without the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.addresses import call_at
from petabatch.kernels.cpu.arrays import borrow
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program import calls
from petabatch.kernels.cpu.program.look import any_stopped
from petabatch.kernels.cpu.program.records import MEASURE, measure_in
from petabatch.kernels.cpu.program.table import CODE, KERNEL, OFFSET, PERIOD, STANDS, TOGETHER, WINDOW
from petabatch.kernels.cpu.program.team import BEFORE, BEGIN, END, FIRST, LAST, done, take, wait


@njit(nogil=True, error_model="numpy")
def due(row: Any, step: int, final: int) -> Any:
    """Say whether an operation is due in `step` of a run to `final`."""
    if row[WINDOW] > 0 and final - step >= row[WINDOW]:
        return False
    if row[PERIOD] == 1:
        return row[STANDS] == 0
    fires = row[PERIOD] > 0 and (step - row[OFFSET]) % row[PERIOD] == 0  # `clock.fires`
    return fires != (row[STANDS] != 0)


@njit(inline="always", nogil=True, error_model="numpy")
def _make(number: int, row: Any, arrays: Any, frame: Any, watched: Any) -> None:
    """Make an operation of one step of all slices; `watched` says which norms of the step are."""
    slices = arrays.shape[0]
    if row[CODE] == MEASURE and not watched[measure_in(row).column]:
        return
    frame[calls.NUMBER] = number
    if row[TOGETHER] != 0 and slices > 1:
        call_at(row[TOGETHER], frame.ctypes.data)
        return
    for w in range(slices):
        frame[calls.SLICE] = w
        call_at(row[KERNEL], frame.ctypes.data)


@njit(inline="always", nogil=True, error_model="numpy")
def _frame(
    rows: Any, numbers: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, places: Any,
    room: Any, sums: Any,
) -> Any:  # fmt: skip
    """Return a frame of these tables."""
    frame = np.zeros(calls.FRAME, np.int64)
    frame[calls.ROWS], frame[calls.OPERATIONS] = rows.ctypes.data, rows.shape[0]
    frame[calls.WIDTH], frame[calls.DRIVE_WIDTH] = rows.shape[1], drives.shape[1]
    frame[calls.CONSTANTS] = numbers.ctypes.data
    frame[calls.SOURCES], frame[calls.SUMMED] = sources.ctypes.data, sources.shape[0]
    frame[calls.FACTORS] = factors.ctypes.data
    frame[calls.DRIVEN], frame[calls.DRIVING] = drives.ctypes.data, drives.shape[0]
    frame[calls.ARRAYS], frame[calls.HELD] = arrays.ctypes.data, arrays.shape[1]
    frame[calls.GEOMETRIES], frame[calls.SHAPED] = shapes.ctypes.data, shapes.shape[0]
    frame[calls.ROOM_FOR_PLACES], frame[calls.PLACES] = places.ctypes.data, places.size
    frame[calls.ROOM], frame[calls.BYTES] = room.ctypes.data, room.size
    frame[calls.SLICES] = arrays.shape[0]
    frame[calls.STEPS], frame[calls.MEASURED] = sums.shape[1:]
    return frame


@njit(nogil=True, error_model="numpy")
def advance(
    rows: Any, numbers: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, first: int,
    last: int, final: int, fresh: bool, watched: Any, sums: Any, places: Any, room: Any, items: Any,
    tickets: Any, looks: int,
) -> None:  # fmt: skip
    """Make steps first + 1 .. last of some slices, of a run to step `final`; see `table.py` for the tables.

    `fresh` says that an image is new in the first step. Where `watched` `[steps, quantities]` is true, `sums`
    `[slices, steps, quantities]`, float64, receives the norm of a layer after the step. `places` and `room`
    are scratch of what is computed in several slices at once; empty where there is one. `factors` and `room`
    are of the precision of the run, which operations alone know: here they are bytes. Threads that make the
    same steps together share `items` and `tickets` of `team.py`; of a thread alone, one item is a step. With
    `looks`, the array of a `Look`, all end after a step in which one of the slices has met its target.
    """
    rows, arrays, watched, sums = borrow(rows), borrow(arrays), borrow(watched), borrow(sums)
    count = items.shape[0] * (last - first)
    frame = _frame(rows, numbers, sources, factors, drives, arrays, shapes, places, room, sums)
    while True:
        ticket = take(tickets)
        if ticket >= count:
            return
        n = ticket % items.shape[0]
        step = first + 1 + ticket // items.shape[0]
        wait(tickets, ticket - n + items[n, BEFORE])
        if looks > 0 and any_stopped(arrays, looks, step):
            done(tickets)
            continue
        now = step - first - 1
        frame[calls.STEP], frame[calls.FRESH] = step, fresh and now == 0
        frame[calls.SUMS] = sums.ctypes.data + 8 * now * sums.shape[2]
        frame[calls.BEGIN], frame[calls.END] = items[n, BEGIN], items[n, END]
        for number in range(items[n, FIRST], items[n, LAST]):
            if due(rows[number], step, final):
                _make(number, rows[number], arrays, frame, watched[now])
        done(tickets)


@njit(nogil=True, error_model="numpy")
def advance_each(
    rows: Any, numbers: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, first: int,
    last: int, final: int, fresh: bool, watched: Any, sums: Any, places: Any, room: Any, items: Any,
    tickets: Any, looks: int,
) -> None:  # fmt: skip
    """Do as `advance` does, all steps of one slice after those of another."""
    for w in range(arrays.shape[0]):
        if w > 0:
            tickets[:] = 0
        one = slice(w, w + 1)
        advance(
            rows, numbers[one], sources, factors[one], drives, arrays[one], shapes, first, last, final, fresh,
            watched, sums[one], places, room, items, tickets, looks,
        )  # fmt: skip
