"""Tracking of blocking operations (file access, image decoding, compilation) for the watchdog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class BlockingIO:
    """Counts the threads of this rank that are inside a blocking operation.

    A context manager, re-entrant and usable from any thread: `with blocking_io: ...`. A stalled file system
    may block every Python thread, the one that sends heartbeats included. So the state is announced before
    the operation starts: see `announced`.
    """

    def __init__(self) -> None:
        self.busy = 0
        """Threads that are inside a blocking operation."""
        self._announce: Callable[[], None] = _nothing
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *error: object) -> None:
        self._count(-1)

    @contextmanager
    def announced(self, announce: Callable[[], None]) -> Iterator[None]:
        """While the block runs, call `announce` whenever `busy` leaves or returns to zero."""
        self._announce = announce
        try:
            yield
        finally:
            self._announce = _nothing

    def _count(self, change: int) -> None:
        with self._lock:
            before, self.busy = self.busy, self.busy + change
            if not (before and self.busy):
                self._announce()


def _nothing() -> None:
    """Announce nothing."""
