"""The format of a program: one row of integers for each operation, and one of its constants.

    rows      int64 [operations, columns]    what is done, when, and the record of an operation
    numbers   float64 [slices, operations, NUMBERS]  constants: values per slice need no second program
    sources   int64 [n, 3]                   array, steps it is looked back, buffer: what is added up
    factors   [slices, n]                    the factor of each source, in the precision of the run
    arrays    int64 [slices, n, 3]           address, numbers in a place, places; see `views.py`
    shapes    int64 [n, SHAPES]              geometries of patches, and scratch that goes with them
    drives    int64 [n, columns]             records of what is known of connections that drive lazy codes

An array is one of a slice's state (activities: step t in place t modulo the number of places) or scratch of
the thread; number 0 is empty. Operations are made in order, in each step in which they are due, each in all
slices of the call before the next. Some have parts that depend on no other, which threads can share: those of
patches and lazily evaluated codes the tiles of their geometry, updates the chunks of their layer. Kernels of
one operation see the numbers, factors and arrays of one slice; those of `together.py` those of all. Their
records are declared in `kernels/operations/` and read by name, see `records.py`.
"""

from __future__ import annotations

from petabatch.kernels.cpu.layout import Shape
from petabatch.kernels.operations.fields import HEADER
from petabatch.kernels.rows import NUMBERS as NUMBERS

CODE, PERIOD, OFFSET, STANDS, WINDOW, KERNEL, TOGETHER, OUT = range(HEADER)
"""Columns before those of a record: the number of the operation; due at steps t with (t - OFFSET) % PERIOD ==
0, or, if it STANDS, at all others; only in the last WINDOW steps of a run, if that is not 0; the addresses of
the compiled operation and of that for several slices at once, if there is one, see `calls.py`; the array that
is written."""
_OWN = len(Shape._fields)
TILES, STRIP, LEFT, STRIDE, STRIPS, WINDOW_OF, DRIVE, ACTIVE, VALUES, ENDS, PLACES, VECTORS = range(
    _OWN, _OWN + 12
)
SHAPES = _OWN + 12
"""Columns of a geometry: the numbers of a `Shape`; tiles, floats in a strip, where in its row the first patch
starts and how far the next one is, in floats; the scratch arrays of a `Scratch`."""
