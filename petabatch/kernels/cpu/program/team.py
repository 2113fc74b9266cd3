"""Threads that work on the steps of one slice together: tickets, which they take in order.

A ticket is an item of a step: an operation, or a row tile of one. Items come stage by stage; one waits until
all of earlier stages are done. A thread that has a ticket works, so that threads may come late or not at all.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from petabatch.kernels.cpu.arrays import place_in
from petabatch.kernels.cpu.jit import njit

FIRST, LAST, BEFORE, BEGIN, END = range(5)
"""Columns of an item: its rows FIRST .. LAST of the program; how many items of a step must be done BEFORE; of
one row that several items share, its parts BEGIN .. END, see `table.py`."""
ITEM = 5
ALL = 2**62
"""END of a row that is not shared."""
TAKEN, DONE, TICKETS = 0, 8, 16
"""Places in the array of tickets: how many are taken, how many done, in cache lines apart; its length."""
_SPINS = 200
"""Looks before a thread that waits lets others run, about a microsecond."""

_yield = types.ExternalFunction("sched_yield", types.int32())


@intrinsic
def _add_one(typing: Any, array: Any, index: Any) -> Any:
    """Add 1 to array[index], which other threads change too; return what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = place_in(context, builder, signature.args[0], *args)
        return builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst")

    return types.int64(array, types.intp), generate


@intrinsic
def _look(typing: Any, array: Any, index: Any) -> Any:
    """Return array[index], with all that was written before it was set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = place_in(context, builder, signature.args[0], *args)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(array, types.intp), generate


@njit(nogil=True, error_model="numpy")
def take(tickets: Any) -> int:
    """Return the next ticket."""
    return _add_one(tickets, TAKEN)  # type: ignore[no-any-return]


@njit(nogil=True, error_model="numpy")
def wait(tickets: Any, count: int) -> None:
    """Wait until `count` tickets are done."""
    looks = 0
    while _look(tickets, DONE) < count:
        looks += 1
        if looks % _SPINS == 0:
            _yield()


@njit(nogil=True, error_model="numpy")
def done(tickets: Any) -> None:
    """Count a ticket as done."""
    _add_one(tickets, DONE)
