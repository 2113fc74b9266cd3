"""The kernels of a lazy step up to one of them, to learn what each costs; compare `cpu_lazy.wake_tile`."""

from __future__ import annotations

from typing import Any

from numba import njit

from petabatch.kernels.cpu.convolution import join_strips, synthesize
from petabatch.kernels.cpu.layout import Scratch, Shape
from petabatch.kernels.cpu.lazy.bound import filter_rows, products, walk
from petabatch.kernels.cpu.lazy.layout import (
    TOGETHER,
    DecayTable,
    Features,
    LazyScratch,
    LazyState,
    first_row,
)
from petabatch.kernels.cpu.lazy.units import list_due, list_marked, update_due
from petabatch.kernels.cpu.rules import Cell

NOTHING, ERROR, ALARMS, DRIVE, UPDATE, RECONSTRUCTION = range(6)
"""What a step does, in this order."""


@njit(nogil=True, error_model="numpy", cache=True)
def part_of_step(
    last: int, image: Any, factor: Any, recon: Any, error: Any, state: LazyState, weights: Features, c: Cell,
    e: Any, rest: Any, t: DecayTable, age: int, s: Shape, work: Scratch, own: LazyScratch,
) -> None:  # fmt: skip
    """Make a step as far as `last`, on a state that is not to be used for more."""
    if last < ERROR:
        return
    lead = e * state.lead[0] + rest
    filter_rows(image, factor, recon, 0, s.height, e, rest, lead - state.lead[0], s, error, state, own.change)
    state.lead[0] = lead
    for tile in range(work.strips.shape[0]):
        work.strips[tile] = 0
        start = (s.origin + tile * s.tile * s.stride_y) * s.pitch
        begin, end = tile * s.tile * s.nx, min((tile + 1) * s.tile, s.ny) * s.nx
        walk(own.change, begin, end, s, work.places, own.column, state.path)
        for base in range(begin, end if last > ERROR else begin, s.chunk):
            count = min(s.chunk, end - base)
            places, row = work.places[base - begin : base - begin + count], first_row(tile, base - begin, s)
            own.marks[:count] = 0
            n = 0
            for f in range(s.features):
                first, n = n, list_due(n, f, count, base, row, state, s, own.due)
                if n > first and last >= DRIVE:
                    which, found = (own.due.place[first:], n - first), own.due.product[first:]
                    products(state.filtered, start, places, *which, work.pieces, weights.rows, f, found)
                if n >= TOGETHER or f == s.features - 1:
                    if last >= UPDATE:
                        update_due(n, base, age, state, weights, c, t, own.due, own.marks)
                    n = 0
            if last == RECONSTRUCTION:
                list_marked(count, row, own.marks, state.code, s, work)
                active, values, ends = work.active, work.values, work.ends
                synthesize(
                    count, active, values, ends, weights.groups, work.pieces, places, work.strips[tile]
                )
    if last == RECONSTRUCTION:
        join_strips(work.strips, 0, s.height, s, recon)
