"""The driver: the only loop over sync events, and the hooks that are called at them.

A run, a wave of points, a slot of a pool, a `Simulator`, an evaluation and a benchmark are its callers. What
is done between two calls of an engine is a hook, so that what one of them can do, all can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from typing import Protocol

from petabatch.arguments import whole_number
from petabatch.clock import fires
from petabatch.engine.engine import Engine
from petabatch.errors import ArgumentError
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.watchdog import Watch, Worker


class Driven(Worker, Protocol):
    """What is advanced, and watched meanwhile: a network in memory, an engine, or slices in a slot of one."""

    @property
    def step(self) -> int:
        """Number of steps made."""

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet."""

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`, at most the next sync event."""


class Hook(ABC):
    """What is done at the end of some steps, such as a checkpoint; derive yours from it.

    The hooks of a driver are called in their order. Examples are those of `Driver`.
    """

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
    """Advances a network from sync event to sync event, and calls hooks there: a loop of your own.

    A sync event is the end of a step at which all slices have made the same steps; hooks may ask for more of
    them, which changes no bit.

    Parameters
    ----------
    driven
        What is advanced, such as `Simulator.engine`.
    hooks
        What is done at the end of steps, in their order.

    Raises
    ------
    ArgumentError
        For what cannot be advanced, such as a simulator in place of its `engine`, and for what is no hook.
    NonFiniteError, InputError
        While it advances, as what is advanced does.

    Examples
    --------
    >>> class Active(petabatch.Hook):
    ...     def __init__(self, sim):
    ...         self.sim, self.found = sim, {}
    ...     def next(self, step):
    ...         return step - step % 100 + 100
    ...     def due(self, step):
    ...         return step % 100 == 0
    ...     def at(self, step):
    ...         self.found[step] = np.count_nonzero(self.sim["V1"]["A"][...])
    >>> with petabatch.Simulator("params/natural_images.toml") as sim:
    ...     active = Active(sim)
    ...     for step in petabatch.Driver(sim.engine, active).advance(300):
    ...         if step >= 200:
    ...             break
    >>> list(active.found)
    [100, 200]
    """

    def __init__(self, driven: Driven, *hooks: Hook) -> None:
        if not hasattr(driven, "next_sync"):
            hint = "a simulator has it as `engine`" if hasattr(driven, "engine") else ""
            expected = "what is advanced, such as Simulator.engine"
            raise ArgumentError("driven", "this cannot be advanced", driven, expected, hint)
        for hook in hooks:
            if not isinstance(hook, Hook):
                raise ArgumentError(
                    "hooks", "this is not a hook", hook, "objects of a class derived from Hook"
                )
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
        """Make the steps up to step `until`, yielding the number of steps made after each sync event.

        The hooks that are due have been called then. A loop that is left makes no further steps. Raises
        ArgumentError if `until` is not a whole number, or the `next` of a hook does not return a later step.
        """
        return self._advance(whole_number("until", until))

    def _advance(self, until: int) -> Iterator[int]:
        # Threads and files are the caller's: an `Engine` is advanced within its `running`.
        driven, hooks = self._driven, self._hooks
        while (step := driven.step) < until:
            stop = min(until, driven.next_sync())
            for hook in hooks:
                if (wanted := hook.next(step)) is not None:
                    stop = min(stop, _later(hook, wanted, step))
            driven.advance(stop)
            for hook in hooks:
                if hook.due(stop):
                    hook.at(stop)
            yield stop


def _later(hook: Hook, wanted: int, step: int) -> int:
    """Return the step that a hook wants; with one that has been made, the loop would not end."""
    return whole_number(f"{type(hook).__name__}.next({step})", wanted, step + 1)


def drive(engine: Engine, *hooks: Hook, watch: Watch | None = None) -> Generator[int]:
    """Run an engine to its end, yielding the number of steps made after each sync event."""
    driver = Driver(engine, *hooks)
    with nullcontext() if watch is None else watch.on(driver), engine.running():
        yield from driver.advance(engine.plan.length)
