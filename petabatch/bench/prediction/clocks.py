"""Clocks of an engine, read at the end of a display."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from petabatch.engine.engine import Engine

IN_LANE = ("input", "learning", "probes and output")
"""What lanes do besides steps."""


def wall(engine: Engine) -> float:
    """Return the time, without that of a warm-up."""
    return time.monotonic() - engine.warm_up.seconds


def busy(engine: Engine) -> float:
    """Return the seconds in which lanes were at work, or an update."""
    elapsed = np.array([group.all[0].stopwatch.elapsed.get("lane", 0.0) for group in engine.dispatch.groups])
    lanes = max(elapsed.sum() / engine.dispatch.workers, elapsed.max())
    return float(lanes) + engine.stopwatch.elapsed.get("learning", 0.0)


@dataclass
class Clocks:
    """The clocks of an engine at the end of a display.

    Processor time where it is the same as time on an idle machine, since other programs do not count in it.
    """

    wall: float
    spent: np.ndarray
    """Seconds of each slice."""
    parts: dict[str, float]
    """Seconds of what lanes do besides steps, summed over slices."""
    update: float

    @classmethod
    def at(cls, engine: Engine) -> Clocks:
        """Read them."""
        spent = np.zeros(engine.state.hi - engine.state.lo)
        shared = engine.threads > len(engine.dispatch.groups)  # by threads whose time is not counted
        for group in engine.dispatch.groups:
            clock = group.all[0].stopwatch
            spent[group.lanes] = (clock.elapsed if shared else clock.spent).get("lane", 0.0) / len(group.all)
        clocks = [lane.stopwatch for lane in engine.lanes]
        parts = {name: sum(clock.spent.get(name, 0.0) for clock in clocks) for name in IN_LANE}
        return cls(wall(engine), spent, parts, engine.stopwatch.spent.get("learning", 0.0))
