"""Calls of operations: each is a separately compiled function, called by its address.

An operation takes the address of a *frame*, the table of what a call of the loop works on:

    frame   int64 [FRAME]   addresses of the tables of a program; their lengths; the operation, the slice and
                            the step of the call

So a program compiles the operations that it has, and another one those that it adds, in the precision of its
run: of that are the tables of arrays, factors and scratch, which nothing but operations looks into.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import carray

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.table import NUMBERS, SHAPES
from petabatch.kernels.cpu.program.views import Arrays, pointer

(
    ROWS, CONSTANTS, SOURCES, FACTORS, DRIVEN, ARRAYS, GEOMETRIES, ROOM_FOR_PLACES, ROOM,
    OPERATIONS, SUMMED, DRIVING, HELD, SHAPED, SLICES, PLACES, BYTES,
    WIDTH, DRIVE_WIDTH, NUMBER, SLICE, STEP, FRESH, BEGIN, END, SUMS, STEPS, MEASURED,
) = range(28)  # fmt: skip
"""Places of a frame: addresses of the tables of `table.py` and of scratch for all slices; how many there are
of each, and how wide rows and drives are; the operation, the slice, the step, whether an image is new in it,
and the parts that are made; where norms of the first slice go, of how many steps, and how many."""
FRAME = 28


class Call(NamedTuple):
    """An operation of one slice: its row and its numbers, the tables, what is made; see `table.py`."""

    row: Any
    own: Any
    sources: Any
    factors: Any
    drives: Any
    arrays: Any
    shapes: Any
    step: Any
    fresh: Any
    begin: Any
    end: Any
    sums: Any
    """Norms of this step, for probes."""


class CallTogether(NamedTuple):
    """An operation of all slices: their arrays, and scratch for what they have in common."""

    row: Any
    arrays: Any
    shapes: Any
    step: Any
    places: Any
    room: Any


@cache
def calls_of(precision: str) -> tuple[Any, Any]:
    """Return what reads a frame of a run of a precision: as the call of one slice, and of all slices."""
    real = np.dtype(precision).type
    size = np.dtype(precision).itemsize

    @njit(inline="always", nogil=True, error_model="numpy")
    def call_of(frame: Any) -> Call:
        at = carray(pointer(frame), (FRAME,), np.int64)
        n, w = at[NUMBER], at[SLICE]
        table = carray(pointer(at[ARRAYS] + 24 * w * at[HELD]), (at[HELD], 3), np.int64)
        return Call(
            carray(pointer(at[ROWS] + 8 * at[WIDTH] * n), (at[WIDTH],), np.int64),
            carray(pointer(at[CONSTANTS] + 8 * NUMBERS * (w * at[OPERATIONS] + n)), (NUMBERS,), np.float64),
            carray(pointer(at[SOURCES]), (at[SUMMED], 3), np.int64),
            carray(pointer(at[FACTORS] + size * w * at[SUMMED]), (at[SUMMED],), real),
            carray(pointer(at[DRIVEN]), (at[DRIVING], at[DRIVE_WIDTH]), np.int64),
            Arrays(table, real),
            carray(pointer(at[GEOMETRIES]), (at[SHAPED], SHAPES), np.int64),
            at[STEP], at[FRESH] != 0, at[BEGIN], at[END],
            carray(pointer(at[SUMS] + 8 * w * at[STEPS] * at[MEASURED]), (at[MEASURED],), np.float64),
        )  # fmt: skip

    @njit(inline="always", nogil=True, error_model="numpy")
    def call_together_of(frame: Any) -> CallTogether:
        at = carray(pointer(frame), (FRAME,), np.int64)
        room = carray(pointer(at[ROOM]), (at[BYTES] // size,), real)
        return CallTogether(
            carray(pointer(at[ROWS] + 8 * at[WIDTH] * at[NUMBER]), (at[WIDTH],), np.int64),
            Arrays(carray(pointer(at[ARRAYS]), (at[SLICES], at[HELD], 3), np.int64), real),
            carray(pointer(at[GEOMETRIES]), (at[SHAPED], SHAPES), np.int64),
            at[STEP],
            carray(pointer(at[ROOM_FOR_PLACES]), (at[PLACES],), np.int64),
            room,
        )

    return call_of, call_together_of
