"""Messages between ranks, compiled: rows of neighbouring tiles, features of all ranks, and sums over these.

A link is what ranks exchange in an operation of all slices of a call:

    link   int64 [places]   the address of a table of messages, see `kernels/messages.py`; addresses of what
                            is sent and received, 0 where nothing is
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from petabatch.kernels.cpu.arrays import bytes_of, copy
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.views import alone, floats, floats_at, longs, of_slice, pointer, slices_in
from petabatch.kernels.messages import COUNT, ERROR, PLACES, REQUESTS, START, STATUSES, WAIT, WAITING
from petabatch.kernels.operations.transport import Exchange, Join

MESSAGES = 0
"""The first place of a link: the table of its messages."""
UP, DOWN, ABOVE, BELOW = range(1, 5)
"""Further places of a link of rows: `[slices, rows, row]` to and from the tile above and the one below."""
PACKED, PARTS = 1, 2
"""Further places of a link of a sum: where the part of this rank is copied to before it is sent; the parts
`[slices, size]` of all ranks, in their order."""
MONOTONIC = 1
"""The clock of Linux that `time.monotonic` reads."""


@intrinsic
def nanoseconds(typing: Any, clock: Any) -> Any:
    """Return the time of a clock of Linux, by its number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, number = ir.IntType(64), ir.IntType(32)
        time = cgutils.alloca_once(builder, word, 2)
        kind = ir.FunctionType(number, [number, word.as_pointer()])
        read = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(read, [builder.trunc(args[0], number), time])
        seconds, rest = (builder.load(builder.gep(time, [number(n)])) for n in range(2))
        return builder.add(builder.mul(seconds, word(10**9)), rest)

    return types.int64(types.int64), generate


@intrinsic
def add(typing: Any, address: Any, value: Any) -> Any:
    """Add to the int64 at an address, which other threads change too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", place, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


def _call(builder: Any, function: Any, count: Any, *tables: Any) -> Any:
    """Generate the call of a function of C, `int(int, void *, ...)`."""
    number, table = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(number, [number, *[table] * len(tables)])
    pointers = [builder.inttoptr(one, table) for one in tables]
    called = builder.inttoptr(function, kind.as_pointer())
    return builder.sext(builder.call(called, [builder.trunc(count, number), *pointers]), ir.IntType(64))


@intrinsic
def start(typing: Any, function: Any, count: Any, requests: Any) -> Any:
    """Start all messages; return 0 or the number of an error."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, *args)

    return types.int64(*[types.int64] * 3), generate


@intrinsic
def wait(typing: Any, function: Any, count: Any, requests: Any, statuses: Any) -> Any:
    """Wait until all messages have arrived; return 0 or the number of an error."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, *args)

    return types.int64(*[types.int64] * 4), generate


@njit(nogil=True, error_model="numpy")
def deliver(messages: int) -> None:
    """Send and receive the messages of a table, unless some have ended with an error before."""
    at = carray(pointer(messages), (PLACES,), np.int64)
    if at[COUNT] == 0 or at[ERROR] != 0:
        return
    begin = nanoseconds(MONOTONIC)
    add(at[WAITING], 1)
    error = start(at[START], at[COUNT], at[REQUESTS])
    if error == 0:
        error = wait(at[WAIT], at[COUNT], at[REQUESTS], at[STATUSES])
    at[ERROR] = error
    add(at[WAITING], -1)
    add(at[WAITING] + 8, nanoseconds(MONOTONIC) - begin)


@njit(nogil=True, error_model="numpy")
def _at(arrays: Any, address: int, number: int, size: int) -> Any:
    """Return block `number` of numbers at an address; nothing at address 0."""
    return floats_at(arrays, address + bytes_of(arrays.real) * number * size, size if address != 0 else 0)


@njit(nogil=True, error_model="numpy")
def _doubles(address: int, size: int) -> Any:
    """Return float64 numbers at an address."""
    return carray(pointer(address), (size,), np.float64)


@njit(nogil=True, error_model="numpy")
def over_tiles(link: Any, one: float, other: float) -> tuple[float, float]:
    """Return the sums of two numbers over all ranks of a link, in their order; themselves without a link."""
    if link.size == 0:
        return one, other
    mine = _doubles(link[PACKED], 2)
    mine[0], mine[1] = one, other
    deliver(link[MESSAGES])
    one = other = 0.0
    for number in range(link.size - PARTS):
        part = _doubles(link[PARTS + number], 2)
        one += part[0]
        other += part[1]
    return one, other


@njit(nogil=True, error_model="numpy")
def _add_to(out: Any, more: Any) -> None:
    for i in range(more.size):
        out[i] += more[i]


@njit(nogil=True, error_model="numpy")
def _put(part: Any, features: int, number: int, parts: int, out: Any) -> None:
    """Put the features of part `number` in their place among those of all `parts`."""
    for position in range(part.size // features):
        mine, there = position * features, (position * parts + number) * features
        copy(part[mine : mine + features], out[there : there + features])


@operation(Exchange, together=True)
def exchange_rows(op: Any, arrays: Any, step: int) -> None:
    """Exchange rows at the borders of the tiles of slices."""
    link, (number, lookback) = longs(of_slice(arrays, 0), op.link), op.source
    length, adds = op.row, op.adds
    before, after = op.before * length, op.after * length
    last = before + op.rows * length
    # Of sums, rows beyond the tile are sent, and added to those of others; else others get a copy of ours.
    up, down = (before, after) if adds else (after, before)
    begin_up, begin_down = (0, last) if adds else (before, last - before)
    for w in range(slices_in(arrays)):
        wide = floats(of_slice(arrays, w), number, step - lookback)
        copy(wide[begin_up : begin_up + up], _at(arrays, link[UP], w, up))
        copy(wide[begin_down : begin_down + down], _at(arrays, link[DOWN], w, down))
    deliver(link[MESSAGES])
    for w in range(slices_in(arrays)):
        wide = floats(of_slice(arrays, w), number, step - lookback)
        above, below = _at(arrays, link[ABOVE], w, down), _at(arrays, link[BELOW], w, up)
        if adds:
            _add_to(wide[before : before + down], above)
            _add_to(wide[last - up : last], below)
        else:
            copy(above, wide[: above.size])
            copy(below, wide[last : last + below.size])


@operation(Exchange, stored=True)
def _exchange_rows_of_one(op: Any, arrays: Any, step: int) -> None:
    exchange_rows(op, alone(arrays), step)


@operation(Join, together=True)
def join_parts(op: Any, arrays: Any, step: int) -> None:
    """Add up the parts of all ranks of slices, in their order, or join features."""
    link, (number, lookback) = longs(of_slice(arrays, 0), op.link), op.source
    size, features = op.size, op.block
    for w in range(slices_in(arrays)):
        packed = _at(arrays, link[PACKED], w, size)
        copy(floats(of_slice(arrays, w), number, step - lookback)[: packed.size], packed)
    deliver(link[MESSAGES])
    for w in range(slices_in(arrays)):
        out = floats(of_slice(arrays, w), op.out, step)
        if features != 0:
            for part in range(link.size - PARTS):
                _put(_at(arrays, link[PARTS + part], w, size), features, part, link.size - PARTS, out)
            continue
        one, other = _at(arrays, link[PARTS], w, size), _at(arrays, link[PARTS + 1], w, size)
        for i in range(size):
            out[i] = one[i] + other[i]
        for part in range(2, link.size - PARTS):
            _add_to(out[:size], _at(arrays, link[PARTS + part], w, size))


@operation(Join, stored=True)
def _join_parts_of_one(op: Any, arrays: Any, step: int) -> None:
    join_parts(op, alone(arrays), step)
