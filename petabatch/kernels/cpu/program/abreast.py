"""Delivery by synapses to several slices at once, compiled: each post unit gathers its inputs.

For layers most of whose units are active, where all slices have the same synapses. The last activities of
each unit lie side by side, slice after slice, so that a synapse is a vector operation, and a sum stays in a
register. What is under way for `AHEAD` steps and longer is known that long before: it is summed up for that
many steps at once, from activities that follow each other.

A sum has the order, and so the bits, that it has in `scatter`, which adds to what is pending when activities
are sent: the latest synapses come first, of those the first units. Units that are not active add 0. So the
sums of a call begin with what was pending before it, and `hand_over` adds to that what the call has sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import bytes_of
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import SCATTER, operation, scatter_in
from petabatch.kernels.cpu.program.table import CODE, TOGETHER
from petabatch.kernels.cpu.program.views import (
    PLACE,
    depth_of,
    floats,
    floats_at,
    ints,
    longs,
    of_slice,
    of_slices,
    size_of,
    slices_in,
)
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.cpu.simd import operations, pair_operations
from petabatch.kernels.cpu.sizes import ABREAST, AHEAD
from petabatch.kernels.cpu.transpose import SIDE, columns_to_rows, rows_to_columns
from petabatch.kernels.operations.synapses import Scatter

_LINE = 64
"""Bytes of a line of the cache."""
_BEGAN, _MADE = range(2)
"""Of a call: the step before it, and the last one made."""
_VECTORS = operations(ABREAST)
_load, _store, _scaled = _VECTORS.load, _VECTORS.store, _VECTORS.scaled
_add = pair_operations(ABREAST).add
assert AHEAD == 4  # `_sum_up` has a register for each
assert SIDE == 8  # the length of `_addresses`


@operation(Scatter, together=True)
def _scatter_together(op: Any, arrays: Any, step: int) -> None:
    """Add up the synapses of all slices, between `begin_call` and `hand_over`."""
    one, clock = of_slice(arrays, 0), longs(of_slice(arrays, 0), op.call)
    starts, soon = longs(one, op.post_starts), longs(one, op.soon)
    delays, places, weights = ints(one, op.post_delays), ints(one, op.places), floats(one, op.post_weights, 0)
    size, pre, (pitch, ring) = size_of(one, op.out), longs(one, op.starts).size - 1, _ring(op, one)
    post, now, ahead = size // op.positions, step % ring, (step - clock[_BEGAN] - 1) % AHEAD
    clock[_MADE] = step
    for first in range(0, slices_in(arrays), ABREAST):
        slices = of_slices(arrays, first, first + ABREAST)
        sent, sums = _room(op, arrays, first)
        _keep(op, slices, sent, step)
        if ahead == 0:
            _sum_up(op, slices, sent, sums, step, AHEAD - 1)
        for position in range(op.positions):
            origin = position * pre * pitch + now
            for unit in range(post):
                begin, end = np.uint64(soon[unit]), np.uint64(starts[unit + 1])
                if begin == end:
                    continue
                at = (ahead * size + position * post + unit) * ABREAST
                total = _load(sums, at)
                for k in range(begin, end):
                    there = origin + places[k]
                    if delays[k] > now:
                        there += ring
                    total = _add(total, _scaled(weights, np.int64(k), _load(sent, there * ABREAST)))
                _store(sums, at, total)
        _deliver(op, slices, sums, step, ahead)


@njit(nogil=True, error_model="numpy")
def begin_call(rows: Any, arrays: Any, step: int) -> None:
    """Begin a call of the loop after a step: nothing has been sent in it, or in the steps just before."""
    for row in rows:
        if row[CODE] != SCATTER or row[TOGETHER] == 0:
            continue
        op = scatter_in(row)
        longs(of_slice(arrays, 0), op.call)[:] = step
        _clear(op, arrays, step + 2 - AHEAD)


@njit(nogil=True, error_model="numpy")
def hand_over(rows: Any, arrays: Any) -> None:
    """End a call: add what it has sent, and has not arrived, to what is pending of each slice."""
    for row in rows:
        if row[CODE] != SCATTER or row[TOGETHER] == 0:
            continue
        op = scatter_in(row)
        one = of_slice(arrays, 0)
        last, longest = longs(one, op.call)[_MADE], depth_of(one, op.out) - 1
        _clear(op, arrays, last + 1)
        for first in range(0, slices_in(arrays), ABREAST):
            slices = of_slices(arrays, first, first + ABREAST)
            sent, sums = _room(op, arrays, first)
            for step in range(last + 1, last + 1 + longest, AHEAD):
                _sum_up(op, slices, sent, sums, step, step - last)
                for ahead in range(min(AHEAD, last + 1 + longest - step)):
                    _deliver(op, slices, sums, step + ahead, ahead)


@njit(nogil=True, error_model="numpy")
def _sum_up(op: Any, slices: Any, sent: Any, sums: Any, step: int, least: int) -> None:
    """Sum up what arrives in `AHEAD` steps from this one on through synapses late by `least` steps or more.

    The activities of steps before the call, and of those that are not made yet, must be 0.
    """
    one = of_slice(slices, 0)
    since = step - longs(one, op.call)[_BEGAN]
    starts, delays = longs(one, op.post_starts), ints(one, op.post_delays)
    places, weights = ints(one, op.places), floats(one, op.post_weights, 0)
    size, pre, (pitch, ring) = size_of(one, op.out), longs(one, op.starts).size - 1, _ring(op, one)
    post, now, longest = size // op.positions, step % ring, depth_of(one, op.out) - 1
    for ahead in range(AHEAD):
        if since + ahead <= longest:
            _fetch(op, slices, sums, step + ahead, ahead)
        else:
            sums[ahead * size * ABREAST : (ahead + 1) * size * ABREAST] = ZERO
    row_of_sums = size * ABREAST
    for i in range(size):
        position, unit = divmod(i, post)
        origin, at = position * pre * pitch + now, i * ABREAST
        begin, end = starts[unit], starts[unit + 1]
        if since + AHEAD - 1 <= longest:  # others were sent before the call
            begin = _later(delays, begin, end, since + AHEAD - 1)
        end = _later(delays, begin, end, least)
        middle = _later(delays, begin, end, now + 1)
        s0, s1 = _load(sums, at), _load(sums, at + row_of_sums)
        s2, s3 = _load(sums, at + 2 * row_of_sums), _load(sums, at + 3 * row_of_sums)
        for part in range(2):
            # Those of the first part were sent before the ring buffer wrapped around.
            first, last = (middle, end) if part else (begin, middle)
            base = origin if part else origin + ring
            for k in range(np.uint64(first), np.uint64(last)):
                there, n = (base + places[k]) * ABREAST, np.int64(k)
                s0 = _add(s0, _scaled(weights, n, _load(sent, there)))
                s1 = _add(s1, _scaled(weights, n, _load(sent, there + ABREAST)))
                s2 = _add(s2, _scaled(weights, n, _load(sent, there + 2 * ABREAST)))
                s3 = _add(s3, _scaled(weights, n, _load(sent, there + 3 * ABREAST)))
        _store(sums, at, s0)
        _store(sums, at + row_of_sums, s1)
        _store(sums, at + 2 * row_of_sums, s2)
        _store(sums, at + 3 * row_of_sums, s3)


@njit(nogil=True, error_model="numpy")
def _later(delays: Any, begin: int, end: int, limit: int) -> int:
    """Return the first place of begin .. end, or the end, with a delay below the limit; they decrease."""
    while begin < end:
        middle = (begin + end) // 2
        if delays[middle] >= limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(nogil=True, error_model="numpy")
def _keep(op: Any, slices: Any, sent: Any, step: int) -> None:
    """Keep the activities that are sent in a step."""
    pitch, ring = _ring(op, of_slice(slices, 0))
    now, seen = step % ring, step - op.source[1]
    _gather(slices, op.source[0], seen, sent, now * ABREAST, pitch * ABREAST)
    if now < AHEAD - 1:
        _gather(slices, op.source[0], seen, sent, (now + ring) * ABREAST, pitch * ABREAST)


@njit(nogil=True, error_model="numpy")
def _clear(op: Any, arrays: Any, step: int) -> None:
    """Let nothing be sent in `AHEAD` - 1 steps from this one on."""
    one = of_slice(arrays, 0)
    units, (pitch, ring) = size_of(one, op.source[0]), _ring(op, one)
    for first in range(0, slices_in(arrays), ABREAST):
        sent, _ = _room(op, arrays, first)
        for unit in range(units):
            for n in range(step, step + AHEAD - 1):
                at = (unit * pitch + n % ring) * ABREAST
                sent[at : at + ABREAST] = ZERO
                if n % ring < AHEAD - 1:
                    sent[at + ring * ABREAST : at + (ring + 1) * ABREAST] = ZERO


@njit(nogil=True, error_model="numpy")
def _deliver(op: Any, slices: Any, sums: Any, step: int, ahead: int) -> None:
    """Write what arrives in a step from the sums of all slices to what is pending of each."""
    number, one, count = op.out, of_slice(slices, 0), slices_in(slices)
    size, later, each = size_of(one, number), _place(one, number, step), bytes_of(sums)
    begin, whole, squares = ahead * size * ABREAST, size // SIDE * SIDE, count // SIDE * SIDE
    for w in range(0, squares, SIDE):
        a, b, c, d, e, f, g, h = _addresses(slices, w, number, later)
        for unit in range(0, each * whole, each * SIDE):
            columns_to_rows(
                a + unit, b + unit, c + unit, d + unit, e + unit, f + unit, g + unit, h + unit, sums,
                begin + unit // each * ABREAST + w, ABREAST,
            )  # fmt: skip
    for w in range(count):
        own = floats(of_slice(slices, w), number, step)
        for i in range(whole if w < squares else 0, size):
            own[i] = sums[begin + i * ABREAST + w]


@njit(nogil=True, error_model="numpy")
def _fetch(op: Any, slices: Any, sums: Any, step: int, ahead: int) -> None:
    """Begin the sums of a step, of all slices, with what is pending of each."""
    _gather(slices, op.out, step, sums, ahead * size_of(of_slice(slices, 0), op.out) * ABREAST, ABREAST)


@njit(nogil=True, error_model="numpy")
def _gather(slices: Any, number: int, step: int, out: Any, begin: int, pitch: int) -> None:
    """Write out[begin + unit * pitch + w] = array `number` of slice w at a step, unit by unit."""
    one, count, each = of_slice(slices, 0), slices_in(slices), bytes_of(out)
    size, later = size_of(one, number), _place(one, number, step)
    whole, squares = size // SIDE * SIDE, count // SIDE * SIDE
    for w in range(0, squares, SIDE):
        a, b, c, d, e, f, g, h = _addresses(slices, w, number, later)
        for unit in range(0, each * whole, each * SIDE):
            rows_to_columns(
                a + unit, b + unit, c + unit, d + unit, e + unit, f + unit, g + unit, h + unit, out,
                begin + unit // each * pitch + w, pitch,
            )  # fmt: skip
    for w in range(count):
        own = floats(of_slice(slices, w), number, step)
        for unit in range(whole if w < squares else 0, size):
            out[begin + unit * pitch + w] = own[unit]


@njit(nogil=True, error_model="numpy")
def _place(one: Any, number: int, step: int) -> int:
    """Return how many bytes after its first the numbers of an array at a step begin."""
    return bytes_of(one.real) * size_of(one, number) * (step % depth_of(one, number))  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def _addresses(slices: Any, w: int, number: int, later: int) -> Any:
    """Return where an array of eight slices from slice w on lies, `later` bytes after its first."""
    at = slices.table[w : w + SIDE, number, PLACE]
    return (
        at[0] + later, at[1] + later, at[2] + later, at[3] + later,
        at[4] + later, at[5] + later, at[6] + later, at[7] + later,
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def _ring(op: Any, one: Any) -> Any:
    """Return the pitch and the length of a unit's ring buffer, in steps: the first few are there twice."""
    pitch = (depth_of(one, op.out) + 2 * AHEAD - 2) | 1  # `steps_kept` of the longest delay
    return pitch, pitch - AHEAD + 1


@njit(nogil=True, error_model="numpy")
def _room(op: Any, arrays: Any, first: int) -> Any:
    """Return what slices have sent, `[unit, step, slice]`, and their sums, `[AHEAD, unit, slice]`.

    They have the room of these slices, that of one after that of the other, from the next cache line on.
    """
    one = of_slice(arrays, first)
    begin, size = one.table[op.sent, PLACE], ABREAST * size_of(one, op.sent)
    room = floats_at(one, (begin + _LINE - 1) // _LINE * _LINE, size - ABREAST)
    middle = ABREAST * size_of(one, op.source[0]) * _ring(op, one)[0]
    return room[:middle], room[middle:]
