"""The driver: the only loop over sync events, and the hooks that are called at them.

A run, a wave of points, a slot of a pool, a `Simulator`, an evaluation and a benchmark are its callers. What
is done between two calls of an engine is a hook, so that what one of them can do, all can.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from petabatch.engine.engine import Engine
from petabatch.engine.recorder import Record


class Driven(Protocol):
    """What is advanced: an engine, or some slices in a slot of one."""

    @property
    def step(self) -> int:
        """Number of steps made."""

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet."""

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`, at most the next sync event."""


class Hook(Protocol):
    """What is done at the end of some steps, such as a checkpoint; hooks are called in their order."""

    def next(self, step: int, /) -> int | None:
        """Return the first step after `step` that is to be a sync event for it; None where it needs none."""

    def due(self, step: int, /) -> bool:
        """Return whether it is called at the sync event at the end of `step`."""

    def at(self, step: int, /) -> object:
        """Do it; what it raises ends the run."""


@dataclass(frozen=True)
class At:
    """A hook of two functions, for sync events that there are anyway."""

    due: Callable[[int], bool]
    at: Callable[[int], object]

    def next(self, step: int, /) -> None:
        """Return None: it needs no sync event of its own."""


def always(step: int) -> bool:
    """Return True: a hook is called at each sync event."""
    return True


def flush(engine: Engine) -> At:
    """Return the hook that drops what an engine has recorded, at each flush."""
    return At(lambda step: step % engine.plan.flush == 0, lambda step: engine.flushed())


class Sink(Protocol):
    """Where records go: the segments of a directory, memory, or a format of your own."""

    def put(self, records: Sequence[Record], first: int, last: int) -> None:
        """Take what was recorded in the steps `first` to `last`, both included; collective."""


class Driver:
    """Advances an engine, or what is like one, from sync event to sync event."""

    def __init__(self, driven: Driven, *hooks: Hook) -> None:
        self._driven, self._hooks = driven, hooks

    def advance(self, until: int) -> Iterator[int]:
        """Make the steps up to `until`, yielding the number of steps made after each sync event.

        Threads and files are the caller's: for an engine, within `Engine.running`.
        """
        driven, hooks = self._driven, self._hooks
        while (step := driven.step) < until:
            stop = min(until, driven.next_sync())
            for hook in hooks:
                if (wanted := hook.next(step)) is not None:
                    stop = min(stop, wanted)
            driven.advance(stop)
            for hook in hooks:
                if hook.due(stop):
                    hook.at(stop)
            yield stop


def drive(engine: Engine, *hooks: Hook) -> Generator[int]:
    """Run an engine to its end, yielding the number of steps made after each sync event."""
    with engine.running():
        yield from Driver(engine, *hooks).advance(engine.plan.length)
