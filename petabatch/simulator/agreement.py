"""Errors and interrupts on one rank of several: they end the steps of all ranks, which undo the same ones.

Errors that stop single slices, on which only the ranks that share these agree, are those of
`petabatch.engine.agreement`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from petabatch.errors import PetabatchError
from petabatch.parallel.comm import Comm

_PATIENCE = 10
"""Seconds for which a rank with an error waits for those that share its slices, and for its messages."""


def all_ranks_raise(comm: Comm, shares: bool = False) -> AbstractContextManager[None]:
    """Raise an error at the end of the block on all ranks where one has raised one in it; collective.

    Where ranks share slices, others may be waiting for a message of the one that has raised it: they do not
    come. It is then raised on this rank alone, and ends the program.
    """
    return nullcontext() if comm.size == 1 else _all_ranks_raise(comm, shares)


@contextmanager
def _all_ranks_raise(comm: Comm, shares: bool) -> Iterator[None]:
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
    if shares:
        alone = error is not None and not getattr(error, "in_group", False)
        if not comm.agree(0, _PATIENCE if alone else math.inf) and error is not None:
            raise error
    if comm.any(int(error is not None)):
        told = comm.gather(None if error is None else f"{type(error).__name__}: {error}")
        rank, text = comm.broadcast(None if told is None else _first(told))
        if error is None:
            error = PetabatchError(f"Simulator: rank {rank} has failed\n    found:    {text}")
    if error is not None:
        raise error


def _first(told: list[str | None]) -> tuple[int, str]:
    """Return the first rank that has an error, and its text."""
    return next((rank, text) for rank, text in enumerate(told) if text is not None)
