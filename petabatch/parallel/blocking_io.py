"""Work beside the steps whose length nobody can foretell: files, images, compiling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event


class BlockingIO:
    """Counts the threads of a rank that are away on such work: `with errands: ...`, on any of them, nested.

    A file system that stalls may stop all threads of Python, those too that tell others about it. So what is
    to be told is told before: see `announced`.
    """

    def __init__(self) -> None:
        self.busy = 0
        self._tell: Callable[[], None] = _nothing
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *error: object) -> None:
        self._count(-1)

    @contextmanager
    def announced(self, tell: Callable[[], None]) -> Iterator[None]:
        """While the block runs, call `tell` when the first thread goes and when the last one is back.

        What numba compiles, on whatever thread, then counts too.
        """
        self._tell = tell
        try:
            with event.install_listener("numba:compile", _Compiling(self)):
                yield
        finally:
            self._tell = _nothing

    def _count(self, more: int) -> None:
        with self._lock:
            before, self.busy = self.busy, self.busy + more
            if not (before and self.busy):
                self._tell()


class _Compiling(event.Listener):  # type: ignore[misc]  # numba has no types
    def __init__(self, blocking_io: BlockingIO) -> None:
        self._errands = blocking_io

    def on_start(self, event: event.Event) -> None:
        self._errands.__enter__()

    def on_end(self, event: event.Event) -> None:
        self._errands.__exit__()


def _nothing() -> None:
    """Tell nobody."""
