"""Functions that are called at the end of some steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from petabatch.arguments import whole_number
from petabatch.clock import next_fire
from petabatch.engine.driver import Hook
from petabatch.errors import ArgumentError
from petabatch.spec.schedule import Every, Schedule

_EXPECTED = '"display", "10 displays", a number of steps, or a list of steps'


@dataclass(frozen=True)
class Callback:
    """A function and the steps after which it is called."""

    function: Callable[..., Any]
    period: int
    steps: tuple[int, ...] = ()

    def next(self, step: int) -> int | None:
        """Return the first step after `step` at whose end it is called, None if there is none."""
        if self.period:
            return next_fire(self.period, step)
        place = bisect_right(self.steps, step)
        return self.steps[place] if place < len(self.steps) else None


def callback(function: Callable[..., Any], every: object, display: int) -> Callback:
    """Return the callback of a schedule; raises ArgumentError if it is none."""
    if not callable(function):
        raise ArgumentError("function", "this cannot be called", function, "a function of the simulator")
    if isinstance(every, Iterable) and not isinstance(every, str | bytes | dict):
        return Callback(function, 0, tuple(sorted({whole_number("every", step, 1) for step in every})))
    try:
        given = int(every) if isinstance(every, np.integer) else every
        schedule = TypeAdapter[Every](Schedule).validate_python(given)
    except ValidationError:
        raise ArgumentError("every", "this is not a schedule", every, _EXPECTED) from None
    return Callback(function, schedule.steps(display))


@dataclass
class Callbacks:
    """All functions of a simulator, in the order in which they were added."""

    all: list[Callback] = field(default_factory=list)

    def next(self, step: int) -> int | None:
        """Return the first step after `step` at whose end one is called."""
        return min((at for one in self.all if (at := one.next(step)) is not None), default=None)

    def due(self, step: int) -> list[Callback]:
        """Return those that are called at the end of `step`."""
        return [one for one in self.all if one.next(step - 1) == step]


class Calls(Hook):
    """The hook that calls them."""

    def __init__(self, callbacks: Callbacks, call: Callable[[Callable[..., Any]], None]) -> None:
        """`call` calls one of the functions."""
        self._callbacks, self._call = callbacks, call

    def next(self, step: int) -> int | None:
        """Return the first step after `step` at whose end a function is called."""
        return self._callbacks.next(step)

    def due(self, step: int) -> bool:
        """Return whether a function is called at the end of `step`."""
        return bool(self._callbacks.due(step))

    def at(self, step: int) -> None:
        """Call the functions in their order."""
        for one in self._callbacks.due(step):
            self._call(one.function)
