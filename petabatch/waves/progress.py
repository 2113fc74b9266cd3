"""Progress report of points that are computed in turns: a bar, and lines of the log at growing intervals."""

from __future__ import annotations

import time

from petabatch.bars import bar
from petabatch.logs import log
from petabatch.progress import clock_text
from petabatch.waves.compute import Wave

_LOG = 10.0, 600.0
"""Least and largest seconds between two lines of the log."""
_PARTS = 100
"""Parts of a point in a bar: of few points that are computed together, none is done before the last step."""


class PointsProgress:
    """How many points are done, on all ranks."""

    def __init__(
        self, done: int, count: int, failed: int, what: str, quiet: bool, patience: float = 0.0
    ) -> None:
        """Report nothing, not even the end, before so many seconds of `patience`."""
        self.done, self._count, self._failed, self._what = done, count, failed, what
        self._patience = patience
        self._first, self._mine, self._began = done, 0, time.monotonic()
        self._logged = self._began
        self._bar = None if quiet else bar(_PARTS * done, _PARTS * count)

    def __enter__(self) -> PointsProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, wave: Wave, by_others: int) -> None:
        """Count the points of a wave, and those that other ranks have taken, which need not be done."""
        self._mine += len(wave.rows)
        self.done = self._first + self._mine + by_others
        self._failed += len(wave.rows.why)
        self.reached(0.0)

    def reached(self, under_way: float) -> None:
        """Report, with a number of points `under_way` that would have taken as long."""
        now, under_way = time.monotonic(), min(under_way, self._count - self.done)
        if now - self._began < self._patience:
            return
        rate = (self.done + under_way - self._first) / max(now - self._began, 1e-9)
        left = (self._count - self.done - under_way) / rate if rate else 0.0
        failed = f"  {self._failed:,} failed" if self._failed else ""
        text = f"{rate:,.1f} {self._what}s/s  {clock_text(left)} left{failed}"
        head = f"{self._what} {self.done:,} of {self._count:,}"
        if under_way:
            head += f", {(self.done + under_way) / self._count:.0%} of the steps"
        if self._bar is not None:
            self._bar.show(int(_PARTS * (self.done + under_way)), head, text)
        pause = min(max(_LOG[0], (now - self._began) / 100), _LOG[1])
        if now - self._logged > pause or self.done == self._count:
            self._logged = now
            log.info("%s  %s", head, text)
