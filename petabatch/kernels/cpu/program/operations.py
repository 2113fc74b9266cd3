"""The operations of a program, each compiled by itself; `table.py` tells what they do.

To add one: its name and columns in `table.py`, its function here, its row in
`engine/steppers/program/tables/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from petabatch.kernels.cpu.addresses import address_of
from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.abreast import scatter_together
from petabatch.kernels.cpu.program.calls import call_of, call_together_of, out_of, source_of
from petabatch.kernels.cpu.program.draws import draw
from petabatch.kernels.cpu.program.events import count_spikes
from petabatch.kernels.cpu.program.lazy.step import update_lazily
from petabatch.kernels.cpu.program.look import look_at_gap
from petabatch.kernels.cpu.program.messages import exchange_rows, join_parts
from petabatch.kernels.cpu.program.poisson import count_events
from petabatch.kernels.cpu.program.positions import background, bins, largest, unpool
from petabatch.kernels.cpu.program.random import add_noise, add_shots, drop
from petabatch.kernels.cpu.program.row import run_row
from petabatch.kernels.cpu.program.spiking import spike
from petabatch.kernels.cpu.program.synapses import list_active, scatter
from petabatch.kernels.cpu.program.table import HISTORY, OUT, A, B, C, D, E, F, G, H, Op
from petabatch.kernels.cpu.program.together import project_together, synthesize_together
from petabatch.kernels.cpu.program.transport import crop, extend, pool, project_units, reconstruct, spread
from petabatch.kernels.cpu.program.units import CHUNK, polyline, update_chunks
from petabatch.kernels.cpu.program.views import doubles, floats, ints, longs, unsigned
from petabatch.kernels.cpu.program.whole import control, fista, norm, rescale

OPERATIONS: dict[tuple[Op, bool], Any] = {}
"""The compiled function of each operation, in one slice (False) or in all slices of a call (True)."""


def operation(op: Op, together: bool = False) -> Callable[[Callable[[int], None]], Any]:
    """Return the decorator of the function that makes an operation, called with the address of a frame."""

    def register(function: Callable[[int], None]) -> Any:
        OPERATIONS[op, together] = njit(nogil=True, error_model="numpy")(function)
        return OPERATIONS[op, together]

    return register


@cache
def address_of_operation(op: Op, together: bool = False) -> int:
    """Return the address of an operation, compiled if it has to be; 0 where the loop makes it itself."""
    if op is Op.MEASURE or (together and (op, together) not in OPERATIONS):
        return 0
    return address_of(OPERATIONS[op, together])


@operation(Op.COPY)
def _copy(frame: int) -> None:
    c = call_of(frame)
    copy(source_of(c), out_of(c))


@operation(Op.FILL)
def _fill(frame: int) -> None:
    c = call_of(frame)
    out_of(c)[:] = np.float32(c.own[0])


@operation(Op.FILL_DOUBLE)
def _fill_double(frame: int) -> None:
    c = call_of(frame)
    doubles(c.arrays, c.row[OUT])[:] = c.own[0]


@operation(Op.EXTEND)
def _extend(frame: int) -> None:
    c = call_of(frame)
    row = c.row
    extend(
        source_of(c), row[A], row[B], row[G], row[C], row[D], row[E], row[F], row[H], np.float32(c.own[0]),
        out_of(c),
    )  # fmt: skip


@operation(Op.PROJECT)
def _project(frame: int) -> None:
    c = call_of(frame)
    panels, patches = floats(c.arrays, c.row[B], 0), floats(c.arrays, c.row[C], 0)
    project_units(
        source_of(c), panels, patches, c.arrays, c.shapes[c.row[A]], out_of(c), c.begin, c.end
    )  # fmt: skip


@operation(Op.PROJECT, together=True)
def _project_together(frame: int) -> None:
    c = call_together_of(frame)
    project_together(c.row, c.arrays, c.shapes, c.step, c.places, c.room)


@operation(Op.SYNTHESIZE)
def _synthesize(frame: int) -> None:
    c = call_of(frame)
    groups, patches = floats(c.arrays, c.row[B], 0), floats(c.arrays, c.row[C], 0)
    marks, sums = unsigned(c.arrays, c.row[F]), floats(c.arrays, c.row[E], 0)
    reconstruct(
        source_of(c), marks, groups, patches, c.arrays, c.shapes[c.row[A]], out_of(c), sums, c.begin, c.end
    )


@operation(Op.SYNTHESIZE, together=True)
def _synthesize_together(frame: int) -> None:
    c = call_together_of(frame)
    synthesize_together(c.row, c.arrays, c.shapes, c.step, c.places, c.room)


@operation(Op.POOL)
def _pool(frame: int) -> None:
    c = call_of(frame)
    largest, factor = c.row[B] == 1, np.float32(c.own[0])
    pool(source_of(c), c.arrays, c.shapes[c.row[A]], largest, factor, out_of(c), c.begin, c.end)


@operation(Op.SPREAD)
def _spread(frame: int) -> None:
    c = call_of(frame)
    largest, factor, padded = c.row[B] == 1, np.float32(c.own[0]), floats(c.arrays, c.row[C], 0)
    spread(source_of(c), c.arrays, c.shapes[c.row[A]], largest, factor, padded, out_of(c))


@operation(Op.UPDATE)
def _update(frame: int) -> None:
    c = call_of(frame)
    update_chunks(c.row, c.own, c.sources, c.factors, c.arrays, c.step, c.begin, c.end)


@operation(Op.RESCALE)
def _rescale(frame: int) -> None:
    c = call_of(frame)
    out, size = out_of(c), c.row[B]
    for begin in range(0, out.size, size):
        rescale(out[begin : begin + size], c.row[A], c.own[0], c.own[1], c.own[2], c.own[3])


@operation(Op.ACCELERATE)
def _accelerate(frame: int) -> None:
    c = call_of(frame)
    row, arrays = c.row, c.arrays
    buffers = floats(arrays, row[C], 0)
    fista(
        source_of(c), floats(arrays, row[OUT], c.step - 1), out_of(c), floats(arrays, row[A], 0),
        floats(arrays, row[B], 0), buffers[:CHUNK], buffers[CHUNK:], doubles(arrays, row[D]),
        doubles(arrays, row[E]), c.own, longs(arrays, row[F]),
    )  # fmt: skip


@operation(Op.CONTROL)
def _control(frame: int) -> None:
    c = call_of(frame)
    row, arrays, sources, seen = c.row, c.arrays, c.sources, -1.0
    if not c.fresh:
        seen = 0.0
        for n in range(row[C], row[D]):
            seen += c.factors[n] * norm(floats(arrays, sources[n, 0], c.step - 1), sources[n, 2])
    control(seen, doubles(arrays, row[OUT]), doubles(arrays, row[A]), doubles(arrays, row[B]), row[E], c.own)


@operation(Op.CROP)
def _crop(frame: int) -> None:
    c = call_of(frame)
    crop(source_of(c), c.row[A], c.row[B], c.row[G], c.row[C], c.row[D], c.row[E], out_of(c))


@operation(Op.POLYLINE)
def _polyline(frame: int) -> None:
    c = call_of(frame)
    polyline(source_of(c), floats(c.arrays, c.row[A], 0), np.float32(c.own[0]), out_of(c))


@operation(Op.NOISE)
def _noise(frame: int) -> None:
    c = call_of(frame)
    pool, room = unsigned(c.arrays, c.row[A]), unsigned(c.arrays, c.row[B])
    add_noise(pool, c.step, c.own[0], c.own[1], c.row[D], room, out_of(c))


@operation(Op.DROP)
def _drop(frame: int) -> None:
    c = call_of(frame)
    pool, room = unsigned(c.arrays, c.row[A]), unsigned(c.arrays, c.row[B])
    drop(pool, c.step, c.own[0], c.row[D], room, out_of(c))


@operation(Op.POISSON)
def _poisson(frame: int) -> None:
    c = call_of(frame)
    pool, room = unsigned(c.arrays, c.row[A]), unsigned(c.arrays, c.row[B])
    more = unsigned(c.arrays, c.row[C])
    count_events(pool, c.step, c.own[0], c.own[1], room, more, out_of(c))


@operation(Op.EVENTS)
def _events(frame: int) -> None:
    c = call_of(frame)
    count_spikes(doubles(c.arrays, c.row[A]), ints(c.arrays, c.row[B]), c.own[0], c.step, out_of(c))


@operation(Op.SHOTS)
def _shots(frame: int) -> None:
    c = call_of(frame)
    pool, hits, sizes = (
        unsigned(c.arrays, c.row[A]),
        unsigned(c.arrays, c.row[B]),
        unsigned(c.arrays, c.row[C]),
    )
    add_shots(pool, c.step, c.own[0], c.own[1], c.row[D], hits, sizes, out_of(c))


@operation(Op.SPIKE)
def _spike(frame: int) -> None:
    c = call_of(frame)
    row, arrays = c.row, c.arrays
    spike(
        c.own, floats(arrays, row[A], 0), floats(arrays, row[B], 0), floats(arrays, row[C], 0),
        floats(arrays, row[H], 0), floats(arrays, row[HISTORY], 0), source_of(c), floats(arrays, row[D], 0),
        floats(arrays, row[E], 0), floats(arrays, row[F], 0),
        floats(arrays, row[G], 0), out_of(c),
    )  # fmt: skip


@operation(Op.LAZY)
def _lazy(frame: int) -> None:
    c = call_of(frame)
    update_lazily(c.row, c.own, c.sources, c.factors, c.drives, c.arrays, c.shapes, c.step, c.begin, c.end)


@operation(Op.ROW)
def _row(frame: int) -> None:
    c = call_of(frame)
    run_row(c.row, c.own, c.sources, c.factors, c.arrays, c.step)


@operation(Op.DRAW)
def _draw(frame: int) -> None:
    c = call_of(frame)
    draw(unsigned(c.arrays, c.row[A]), c.step, c.row[B] != 0, unsigned(c.arrays, c.row[C]), out_of(c))


@operation(Op.SCATTER)
def _scatter(frame: int) -> None:
    c = call_of(frame)
    scatter(c.row, c.arrays, c.step)


@operation(Op.SCATTER, together=True)
def _scatter_together(frame: int) -> None:
    c = call_together_of(frame)
    scatter_together(c.row, c.arrays, c.step)


@operation(Op.LIST)
def _list(frame: int) -> None:
    c = call_of(frame)
    list_active(c.row, c.arrays, c.step)


@operation(Op.LIST, together=True)
def _list_together(frame: int) -> None:
    """Do nothing: synapses that are summed up in several slices at once read no list."""


@operation(Op.LOOK)
def _look(frame: int) -> None:
    c = call_of(frame)
    look_at_gap(c.row, c.own, c.arrays, c.shapes, c.step)


@operation(Op.LARGEST)
def _largest(frame: int) -> None:
    c = call_of(frame)
    largest(source_of(c), c.row[A], out_of(c))


@operation(Op.BACKGROUND)
def _background(frame: int) -> None:
    c = call_of(frame)
    background(source_of(c), c.row[A], c.row[B], out_of(c))


@operation(Op.BINS)
def _bins(frame: int) -> None:
    c = call_of(frame)
    bins(out_of(c), c.row[A], c.own)


@operation(Op.UNPOOL)
def _unpool(frame: int) -> None:
    c = call_of(frame)
    row = c.row
    unpool(source_of(c), floats(c.arrays, row[A], 0), row[B], row[C], row[D], row[E], out_of(c))


@operation(Op.EXCHANGE)
def _exchange(frame: int) -> None:
    c = call_of(frame)
    exchange_rows(c.row, c.arrays.reshape((1, *c.arrays.shape)), c.step)


@operation(Op.EXCHANGE, together=True)
def _exchange_together(frame: int) -> None:
    c = call_together_of(frame)
    exchange_rows(c.row, c.arrays, c.step)


@operation(Op.JOIN)
def _join(frame: int) -> None:
    c = call_of(frame)
    join_parts(c.row, c.arrays.reshape((1, *c.arrays.shape)), c.step)


@operation(Op.JOIN, together=True)
def _join_together(frame: int) -> None:
    c = call_together_of(frame)
    join_parts(c.row, c.arrays, c.step)
