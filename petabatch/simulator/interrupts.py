"""Ctrl-C while steps are made: an interrupt waits until all slices of all ranks have made the same ones."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from petabatch.parallel.comm import Comm

_LATER = 0.1
"""Seconds within which ranks get the signal of one Ctrl-C, which would else count as a second one."""


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
