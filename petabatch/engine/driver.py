"""The driver: the only loop over sync events, and the hooks that are called at them.

A run, a wave of points, a slot of a pool, a `Simulator`, an evaluation and a benchmark are its callers. What
is done between two calls of an engine is a hook, so that what one of them can do, all can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from typing import Protocol

from petabatch.clock import fires
from petabatch.engine.engine import Engine
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.watchdog import Watch, Worker


class Driven(Worker, Protocol):
    """What is advanced, and watched meanwhile: an engine, or some slices in a slot of one."""

    @property
    def step(self) -> int:
        """Number of steps made."""

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet."""

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`, at most the next sync event."""


class Hook(ABC):
    """What is done at the end of some steps, such as a checkpoint; hooks are called in their order."""

    @property
    def progress(self) -> int:
        """A number that grows while it works long, for hang detection."""
        return 0

    def next(self, step: int) -> int | None:
        """Return the first step after `step` that is to be a sync event for it; None where it needs none."""
        return None

    @abstractmethod
    def due(self, step: int) -> bool:
        """Return whether it is called at the sync event at the end of `step`."""

    @abstractmethod
    def at(self, step: int) -> None:
        """Do it; what it raises ends the run."""


class At(Hook):
    """A hook of two functions: when it is due, and what is done."""

    def __init__(self, due: Callable[[int], bool], do: Callable[[int], object]) -> None:
        self._due, self._do = due, do

    def due(self, step: int) -> bool:
        """Return whether it is called at the sync event at the end of `step`."""
        return self._due(step)

    def at(self, step: int) -> None:
        """Do it."""
        self._do(step)


def always(step: int) -> bool:
    """Return True: a hook is called at each sync event."""
    return True


def flush(engine: Engine) -> At:
    """Return the hook that drops what an engine has recorded, at each flush."""
    return At(lambda step: fires(engine.plan.flush, step), lambda step: engine.flushed())


class Driver:
    """Advances an engine, or what is like one, from sync event to sync event; what hang detection watches."""

    def __init__(self, driven: Driven, *hooks: Hook) -> None:
        self._driven, self._hooks = driven, hooks

    @property
    def blocking_io(self) -> BlockingIO:
        """The blocking operations that this process is inside of."""
        return self._driven.blocking_io

    @property
    def progress(self) -> int:
        """A number that grows with the progress of any slice, and of hooks that work long."""
        return self._driven.progress + sum(hook.progress for hook in self._hooks)

    @property
    def warming_up(self) -> bool:
        """Whether it has not yet reached its first sync event."""
        return self._driven.warming_up

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


def drive(engine: Engine, *hooks: Hook, watch: Watch | None = None) -> Generator[int]:
    """Run an engine to its end, yielding the number of steps made after each sync event."""
    driver = Driver(engine, *hooks)
    with nullcontext() if watch is None else watch.on(driver), engine.running():
        yield from driver.advance(engine.plan.length)
