"""Clock of the time of a lane, by activity."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up the time of whichever thread uses it, in seconds, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        """Processor time."""
        self.elapsed: dict[str, float] = {}
        """Wall-clock time."""

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Count the time inside to `name`."""
        begin, since = time.thread_time(), time.monotonic()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.thread_time() - begin
            self.elapsed[name] = self.elapsed.get(name, 0.0) + time.monotonic() - since
