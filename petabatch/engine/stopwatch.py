"""Stopwatch of the time of a lane, by activity."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager


class Stopwatch:
    """Adds up the time of whichever thread uses it, in seconds, by name."""

    def __init__(self, aside: Callable[[], float] = lambda: 0.0) -> None:
        """`aside` returns the seconds so far that count elsewhere, as those in which kernels are compiled."""
        self._aside = aside
        self.spent: dict[str, float] = {}
        """Processor time."""
        self.elapsed: dict[str, float] = {}
        """Wall-clock time without what is set aside."""

    def measure(self, name: str) -> AbstractContextManager[None]:
        """Count the time inside to `name`."""
        return _Measured(self, name, self._aside)


class _Measured(AbstractContextManager[None]):
    """A block whose time a clock counts; entered some times in each call of a few steps."""

    __slots__ = ("_aside", "_begin", "_name", "_set_aside", "_since", "_stopwatch")

    def __init__(self, stopwatch: Stopwatch, name: str, aside: Callable[[], float]) -> None:
        self._stopwatch, self._name, self._aside = stopwatch, name, aside

    def __enter__(self) -> None:
        self._begin, self._since, self._set_aside = time.thread_time(), time.monotonic(), self._aside()

    def __exit__(self, *error: object) -> None:
        spent, elapsed, name = self._stopwatch.spent, self._stopwatch.elapsed, self._name
        spent[name] = spent.get(name, 0.0) + time.thread_time() - self._begin
        counted = time.monotonic() - self._since - (self._aside() - self._set_aside)
        elapsed[name] = elapsed.get(name, 0.0) + max(0.0, counted)
