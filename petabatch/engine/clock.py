"""Clock of the time of a lane, by activity."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Adds up the time of whichever thread uses it, in seconds, by name."""

    def __init__(self, aside: Callable[[], float] = lambda: 0.0) -> None:
        """`aside` returns the seconds so far that count elsewhere, as those in which kernels are compiled."""
        self._aside = aside
        self.spent: dict[str, float] = {}
        """Processor time."""
        self.elapsed: dict[str, float] = {}
        """Wall-clock time without what is set aside."""

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Count the time inside to `name`."""
        begin, since, aside = time.thread_time(), time.monotonic(), self._aside()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.thread_time() - begin
            counted = time.monotonic() - since - (self._aside() - aside)
            self.elapsed[name] = self.elapsed.get(name, 0.0) + max(0.0, counted)
