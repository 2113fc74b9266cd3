"""The loop of a program, compiled: many steps of some slices in one call, without the interpreter.

Functions with one caller are inlined, because numba optimises the code of all that a function calls again at
each level of calls: this takes a third off the time of the first compilation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import borrow, copy
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.draws import draw
from petabatch.kernels.cpu.program.lazy.step import update_lazily
from petabatch.kernels.cpu.program.look import any_stopped, look_at_gap
from petabatch.kernels.cpu.program.random import add_noise, add_shots, drop
from petabatch.kernels.cpu.program.row import run_row
from petabatch.kernels.cpu.program.spiking import spike
from petabatch.kernels.cpu.program.synapses import scatter
from petabatch.kernels.cpu.program.table import (
    CODE,
    IN,
    LOOKBACK,
    OFFSET,
    OUT,
    PERIOD,
    STANDS,
    WINDOW,
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    H,
    Op,
)  # fmt: skip
from petabatch.kernels.cpu.program.team import BEFORE, BEGIN, END, FIRST, LAST, done, take, wait
from petabatch.kernels.cpu.program.together import project_together, synthesize_together
from petabatch.kernels.cpu.program.transport import crop, extend, pool, project_units, reconstruct, spread
from petabatch.kernels.cpu.program.units import (
    CHUNK,
    FACTOR,
    GAIN,
    LINEAR,
    RULE,
    apply,
    gather,
    polyline,
    rates,
)
from petabatch.kernels.cpu.program.views import DEPTH, doubles, floats, ints, longs, unsigned
from petabatch.kernels.cpu.program.whole import control, fista, norm, rescale

_COPY, _FILL, _FILL_DOUBLE, _EXTEND, _PROJECT, _SYNTHESIZE, _POOL = (int(op) for op in list(Op)[:7])
_SPREAD, _UPDATE, _RESCALE, _ACCELERATE, _CONTROL, _MEASURE = (int(op) for op in list(Op)[7:13])
_CROP, _POLYLINE, _NOISE, _DROP, _SHOTS, _SPIKE, _LAZY, _ROW, _DRAW, _SCATTER, _LOOK = (
    int(op) for op in list(Op)[13:]
)


@njit(nogil=True, error_model="numpy")
def due(row: Any, step: int, final: int) -> Any:
    """Say whether an operation is due in `step` of a run to `final`."""
    if row[WINDOW] > 0 and final - step >= row[WINDOW]:
        return False
    if row[PERIOD] == 1:
        return row[STANDS] == 0
    fires = row[PERIOD] > 0 and (step - row[OFFSET]) % row[PERIOD] == 0
    return fires != (row[STANDS] != 0)


@njit(inline="always", nogil=True, error_model="numpy")
def _update(
    row: Any, own: Any, sources: Any, factors: Any, arrays: Any, step: int, first: int, last: int
) -> None:  # fmt: skip
    activity, previous = floats(arrays, row[OUT], step), floats(arrays, row[OUT], step - 1)
    V, before = floats(arrays, row[D], 0), floats(arrays, row[E], 0)
    buffers = floats(arrays, row[F], 0)
    factor, gain = np.float32(own[FACTOR]), np.float32(own[GAIN])
    if row[G] > 0:
        factor, gain = rates(own, doubles(arrays, row[G])[0])
    carried = own[RULE] < LINEAR and arrays[row[OUT], DEPTH] > 1
    for chunk in range(first, min(last, -(-activity.size // CHUNK))):
        begin = chunk * CHUNK
        end = min(begin + CHUNK, activity.size)
        spare, other = buffers[: end - begin], buffers[CHUNK : CHUNK + end - begin]
        drive = gather(arrays, sources, factors, row[A], row[B], row[OUT], step, begin, end, spare, other)
        if carried:
            copy(previous[begin:end], activity[begin:end])
        apply(
            own, factor, gain, drive, spare, other, activity[begin:end], V[begin:end], before[begin:end],
        )  # fmt: skip


@njit(inline="always", nogil=True, error_model="numpy")
def _control(row: Any, own: Any, sources: Any, factors: Any, arrays: Any, step: int, fresh: bool) -> None:
    seen = -1.0
    if not fresh:
        seen = 0.0
        for n in range(row[C], row[D]):
            seen += factors[n] * norm(floats(arrays, sources[n, 0], step - 1), sources[n, 2])
    control(seen, doubles(arrays, row[OUT]), doubles(arrays, row[A]), doubles(arrays, row[B]), row[E], own)


@njit(inline="always", nogil=True, error_model="numpy")
def _random(row: Any, own: Any, arrays: Any, step: int, source: Any, out: Any) -> None:
    code = row[CODE]
    if code == _SPIKE:
        spike(
            own, floats(arrays, row[A], 0), floats(arrays, row[B], 0), floats(arrays, row[C], 0), source,
            floats(arrays, row[D], 0), floats(arrays, row[E], 0), floats(arrays, row[F], 0),
            floats(arrays, row[G], 0), out,
        )  # fmt: skip
        return
    if code == _DRAW:
        draw(unsigned(arrays, row[A]), step, row[B] != 0, unsigned(arrays, row[C]), out)
        return
    pool, room = unsigned(arrays, row[A]), unsigned(arrays, row[B])
    if code == _NOISE:
        add_noise(pool, step, own[0], own[1], room, out)
    elif code == _DROP:
        drop(pool, step, own[0], room, out)
    elif code == _SHOTS:
        add_shots(pool, step, own[0], own[1], row[D], room, unsigned(arrays, row[C]), out)


@njit(inline="always", nogil=True, error_model="numpy")
def operate(
    row: Any, own: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, step: int,
    fresh: bool, begin: int, end: int,
) -> None:  # fmt: skip
    """Make parts begin .. end of one operation of one step of one slice."""
    code = row[CODE]
    if code == _UPDATE:
        _update(row, own, sources, factors, arrays, step, begin, end)
        return
    if code == _LAZY:
        update_lazily(row, own, sources, factors, drives, arrays, shapes, step, begin, end)
        return
    if code == _LOOK:
        look_at_gap(row, own, arrays, shapes, step)
        return
    if code == _ROW:
        run_row(row, own, sources, factors, arrays, step)
        return
    if code == _CONTROL:
        _control(row, own, sources, factors, arrays, step, fresh)
        return
    if code == _FILL_DOUBLE:
        doubles(arrays, row[OUT])[:] = own[0]
        return
    if code == _ACCELERATE:
        fista(
            floats(arrays, row[IN], 0), floats(arrays, row[OUT], step - 1), floats(arrays, row[OUT], step),
            floats(arrays, row[A], 0), floats(arrays, row[B], 0), floats(arrays, row[C], 0),
            doubles(arrays, row[D]), doubles(arrays, row[E]), own,
        )  # fmt: skip
        return
    source, out = floats(arrays, row[IN], step - row[LOOKBACK]), floats(arrays, row[OUT], step)
    if code == _SCATTER:
        starts, targets = longs(arrays, row[B]), ints(arrays, row[C])
        scatter(source, row[A], starts, targets, floats(arrays, row[D], 0), out)
        return
    if code >= _NOISE:
        _random(row, own, arrays, step, source, out)
        return
    if code == _COPY:
        copy(source, out)
    elif code == _FILL:
        out[:] = np.float32(own[0])
    elif code == _EXTEND:
        extend(
            source, row[A], row[B], row[G], row[C], row[D], row[E], row[F], row[H], np.float32(own[0]), out
        )  # fmt: skip
    elif code == _PROJECT:
        project_units(
            source, floats(arrays, row[B], 0), floats(arrays, row[C], 0), arrays, shapes[row[A]], out, begin,
            end,
        )  # fmt: skip
    elif code == _SYNTHESIZE:
        reconstruct(
            source, unsigned(arrays, row[F]), floats(arrays, row[B], 0), floats(arrays, row[C], 0), arrays,
            shapes[row[A]], out, floats(arrays, row[E], 0), begin, end,
        )  # fmt: skip
    elif code == _POOL:
        pool(source, arrays, shapes[row[A]], row[B] == 1, np.float32(own[0]), out, begin, end)
    elif code == _SPREAD:
        padded = floats(arrays, row[C], 0)
        spread(source, arrays, shapes[row[A]], row[B] == 1, np.float32(own[0]), padded, out)
    elif code == _RESCALE:
        for begin in range(0, out.size, row[B]):
            rescale(out[begin : begin + row[B]], row[A], own[0], own[1], own[2], own[3])
    elif code == _CROP:
        crop(source, row[A], row[B], row[G], row[C], row[D], row[E], out)
    elif code == _POLYLINE:
        polyline(source, floats(arrays, row[A], 0), np.float32(own[0]), out)


@njit(inline="always", nogil=True, error_model="numpy")
def _make(
    number: int, rows: Any, numbers: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any,
    step: int, fresh: bool, watched: Any, sums: Any, places: Any, room: Any, begin: int, end: int,
) -> None:  # fmt: skip
    """Make parts begin .. end of one operation of one step of all slices.

    `watched` and `sums` are those of the step.
    """
    row = rows[number]
    if row[CODE] == _PROJECT and row[D] > 0 and places.size > 0:
        project_together(row, arrays, shapes, step, places, room)
    elif row[CODE] == _SYNTHESIZE and row[D] > 0 and places.size > 0:
        synthesize_together(row, arrays, shapes, step, places, room)
    elif row[CODE] != _MEASURE:
        for w in range(arrays.shape[0]):
            operate(
                row, numbers[w, number], sources, factors[w], drives, arrays[w], shapes, step, fresh, begin,
                end,
            )  # fmt: skip
    elif watched[row[A]]:
        for w in range(arrays.shape[0]):
            sums[w, row[A]] = norm(floats(arrays[w], row[OUT], step), row[B])


@njit(nogil=True, error_model="numpy")
def advance(
    rows: Any, numbers: Any, sources: Any, factors: Any, drives: Any, arrays: Any, shapes: Any, first: int,
    last: int, final: int, fresh: bool, watched: Any, sums: Any, places: Any, room: Any, items: Any,
    tickets: Any, looks: int,
) -> None:  # fmt: skip
    """Make steps first + 1 .. last of some slices, of a run to step `final`; see `table.py` for the tables.

    `fresh` says that an image is new in the first step. Where `watched` `[steps, quantities]` is true, `sums`
    `[slices, steps, quantities]`, float64, receives the norm of a layer after the step. `places` and `room`
    are scratch of what is computed in several slices at once; empty where there is one. Threads that make the
    same steps together share `items` and `tickets` of `team.py`; of a thread alone, one item is a step. With
    `looks`, the array that a LOOK writes, all end after a step in which one of the slices has met its target.
    """
    rows, numbers, sources, factors = borrow(rows), borrow(numbers), borrow(sources), borrow(factors)
    drives, arrays, shapes = borrow(drives), borrow(arrays), borrow(shapes)
    watched, sums, places, room = borrow(watched), borrow(sums), borrow(places), borrow(room)
    count = items.shape[0] * (last - first)
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
        for number in range(items[n, FIRST], items[n, LAST]):
            if due(rows[number], step, final):
                _make(
                    number, rows, numbers, sources, factors, drives, arrays, shapes, step, fresh and now == 0,
                    watched[now], sums[:, now], places, room, items[n, BEGIN], items[n, END],
                )  # fmt: skip
        done(tickets)
