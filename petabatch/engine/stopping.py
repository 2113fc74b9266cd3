"""Stopping before the end: on a signal, or when the wall-clock limit is reached; and what is said then.

A run, waves, pools, a `Simulator` and sweeps in memory ask the same `Stop`, most of them by the same hook.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from petabatch.engine.driver import Hook
from petabatch.errors import StoppedEarly
from petabatch.parallel.comm import Comm
from petabatch.spec.duration import seconds
from petabatch.spec.network import Run
from petabatch.stop_signals import StopFlag, watch

ANSWERS = {
    "run": "stopping with a checkpoint",
    "point": "stopping; what is finished is kept, and waves under way go on from a checkpoint",
    "slice": "stopping; what is finished is kept, and slices under way are made again",
}
"""What is said at a signal, by what is made."""


def heeding(what: str, comm: Comm, quiet: bool) -> AbstractContextManager[StopFlag]:
    """Note signals in the block, and answer them on rank 0; `what` is made, a key of `ANSWERS`."""
    return watch(ANSWERS[what] if comm.rank == 0 and not quiet else "")


class Stopped(Exception):
    """What was under way was left because the process is to stop."""


class Stop:
    """Whether this process is to stop: a signal was received, or `run.wall_limit` is over."""

    def __init__(self, run: Run, flag: StopFlag | None = None, began: float | None = None) -> None:
        """Count from the monotonic time at which the process `began`, by default now."""
        began = time.monotonic() if began is None else began
        self._flag = flag
        self._end = math.inf if run.wall_limit is None else began + seconds(run.wall_limit)

    def __call__(self) -> bool:
        """Return whether it is, on this rank."""
        return bool(self._flag is not None and self._flag.received) or time.monotonic() > self._end


class Stops(Hook):
    """The hook that leaves a loop before its last step."""

    def __init__(self, asked: Callable[[], object], length: int, leave: Callable[[int], object]) -> None:
        """`asked` says the same on all ranks that make the steps; `leave` saves what is to be, and raises."""
        self._asked, self._length, self._leave = asked, length, leave

    def due(self, step: int) -> bool:
        """Return whether the loop is left at the end of `step`; collective, but for the last step."""
        return step < self._length and bool(self._asked())

    def at(self, step: int) -> None:
        """Leave it."""
        self._leave(step)


def stopped_early(reached: str, again: str, rank: int = 0) -> StoppedEarly:
    """Return the error of what has stopped: what it has `reached`, and how to go on from there `again`."""
    return StoppedEarly(f"stopped {reached}\n    hint:     {again}", rank)
