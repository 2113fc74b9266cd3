"""Time: steps, displays and t, and the steps at whose end a schedule fires.

Steps are numbered from 1; step 0 is the state before the first. A number of steps that were made is the
number of the last of them. What is converted is converted here, so that all round and count alike; compiled
steps, which cannot call this, say that they follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

Steps = TypeVar("Steps", int, np.ndarray)
"""A number of steps or displays, or an array of them."""


HERTZ = {"s": 1.0, "ms": 1e3, "us": 1e6}
"""Events in a second, by the unit of time in which there is one."""


@dataclass(frozen=True)
class Clock:
    """The clock of a network: how long a display and a step are."""

    display: int = 1
    """Steps of a display."""
    dt: Any = 1.0
    """Duration of a step, in the unit of time of the network; an array where it is one of each slice."""

    @overload
    def t(self, step: int) -> float: ...

    @overload
    def t(self, step: np.ndarray) -> np.ndarray: ...

    def t(self, step: Any) -> Any:
        """Return the time at the beginning of a step, in the unit of `dt`: `t` of equations, 0 in step 1."""
        return (step - 1) * self.dt

    @overload
    def time(self, steps: float) -> float: ...

    @overload
    def time(self, steps: np.ndarray) -> np.ndarray: ...

    def time(self, steps: Any) -> Any:
        """Return how long a number of steps takes, in the unit of `dt`: the time at the end of that step."""
        return steps * self.dt

    @overload
    def steps(self, time: float) -> float: ...

    @overload
    def steps(self, time: np.ndarray) -> np.ndarray: ...

    def steps(self, time: Any) -> Any:
        """Return how many steps a time is, in the unit of `dt`; not rounded."""
        return time / self.dt

    def length(self, displays: Steps) -> Steps:
        """Return the steps of a number of displays: the last step of display `displays`, counted from 1."""
        return displays * self.display

    @overload
    def displays(self, steps: int) -> float: ...

    @overload
    def displays(self, steps: np.ndarray) -> np.ndarray: ...

    def displays(self, steps: Any) -> Any:
        """Return a number of steps in displays; not rounded."""
        return steps / self.display

    def item(self, step: Steps) -> Steps:
        """Return the number of the display that a step is in, from 0."""
        return (step - 1) // self.display

    def place(self, step: Steps) -> Steps:
        """Return which step of its display a step is, from 1."""
        return (step - 1) % self.display + 1

    def complete(self, steps: Steps) -> Steps:
        """Return how many displays are complete after a number of steps."""
        return steps // self.display

    def begun(self, steps: Steps) -> Steps:
        """Return the number of displays that have started after a number of steps, rounded up."""
        return -(-steps // self.display)

    def under_way(self, steps: Steps) -> Steps:
        """Return how many steps of a display that is not complete were made after a number of steps."""
        return steps % self.display

    def begins(self, step: int) -> bool:
        """Return whether a step is the first of a display."""
        return (step - 1) % self.display == 0

    def ends(self, step: int) -> bool:
        """Return whether a step is the last of a display: that many steps are whole displays."""
        return step % self.display == 0


def fires(period: int, step: int, offset: int = 0) -> bool:
    """Return whether a schedule of `period` steps fires at the end of `step`; a period of 0 is never."""
    return period > 0 and (step - offset) % period == 0


def next_fire(period: int, step: int, offset: int = 0) -> int | None:
    """Return the first step after `step` at whose end the schedule fires, None if it never does."""
    return None if period <= 0 else step + period - (step - offset) % period


def last_fire(period: int, step: int, offset: int = 0) -> int:
    """Return the last step up to `step` at whose end the schedule fires, which may be before the first."""
    return step - (step - offset) % period


def firing(period: int, first: int, last: int, offset: int = 0) -> range:
    """Return the steps after `first`, up to `last`, at whose end the schedule fires."""
    begin = next_fire(period, first, offset)
    return range(0) if begin is None else range(begin, last + 1, period)


def fired(period: int, steps: int, offset: int = 0) -> int:
    """Return how often the schedule has fired after a number of steps."""
    first = next_fire(period, 0, offset)
    return 0 if first is None else (steps - first) // period + 1
