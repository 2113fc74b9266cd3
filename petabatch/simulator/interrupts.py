"""Errors and Ctrl-C on one rank of several: they end the steps of all ranks, which undo the same ones.

Errors that stop single slices, on which only the ranks that share these agree, are those of
`petabatch.engine.agreement`. Ctrl-C waits until all slices of all ranks have made the same steps.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any

from petabatch.errors import PetabatchError
from petabatch.parallel.comm import Comm

_PATIENCE = 10
"""Seconds for which a rank with an error waits for those that share its slices, and for its messages."""
_LATER = 0.1
"""Seconds within which ranks get the signal of one Ctrl-C, which would else count as a second one."""


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


class Interrupts:
    """Notes Ctrl-C while its block runs; a second one raises KeyboardInterrupt at once.

    Only where Python's own handler is in place, in the main thread: else Ctrl-C is left to the program.
    """

    def __init__(self, comm: Comm) -> None:
        self._comm, self._pressed, self._noting = comm, False, False

    def __enter__(self) -> Interrupts:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._noting = True
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._noting:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._pressed and error is None:  # after the last call of `answer`
            raise KeyboardInterrupt

    def answer(self) -> None:
        """Raise KeyboardInterrupt on all ranks if Ctrl-C was pressed on any: collective."""
        if self._comm.any(int(self._pressed)):
            if not self._pressed:
                time.sleep(_LATER)
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let Ctrl-C raise KeyboardInterrupt within the block, as in a function of the user's."""
        if self._noting:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            if self._noting and not self._pressed:
                signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self._pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
