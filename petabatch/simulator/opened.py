"""A network that is open in memory: its numbers as they are now, its engine, and what was changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.assembly import assembled, initialise
from petabatch.errors import ArgumentError, PetabatchError
from petabatch.network import lazy_codes
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.comm import Comm
from petabatch.simulator import numbers
from petabatch.simulator.running import Running
from petabatch.simulator.saved import Saved
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.storage.memory import Memory


class Opened:
    """A network and the engine that runs it, another one once numbers have changed."""

    def __init__(self, loaded: Loaded, comm: Comm, threads: int | None) -> None:
        """Open a network in its initial state; collective."""
        self.given, self._assembly = assembled(loaded, comm, threads)
        """The network with the numbers that it was given with."""
        self._loaded, self._records = self.given, Memory()
        self.numbers: dict[str, Any] = {}
        """Numbers that were changed, or lists of one for each slice, by key path."""
        self.changes: dict[str, int] = {}
        """What was changed by hand, and after which step for the first time."""
        self._spent: Mapping[str, float] = {}
        """Seconds by activity of engines before the present one, which had other numbers."""
        self._running: Running | None = Running(self._loaded, self._assembly, self._records)
        try:
            initialise(self._running.engine, self._loaded)
        except BaseException:
            self.close()
            raise

    @property
    def running(self) -> Running:
        """The engine; raises PetabatchError after `close`."""
        if self._running is None:
            raise PetabatchError("Simulator: this simulator is closed\n    hint:     make another one")
        return self._running

    @property
    def times(self) -> dict[str, float]:
        """Seconds spent so far, by activity."""
        now, before = self.running.engine.times(), self._spent
        return {name: now.get(name, 0.0) + before.get(name, 0.0) for name in {**before, **now}}

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._running is not None

    @property
    def network(self) -> Network:
        """The network, with its numbers as they are now."""
        return self._loaded.network

    def note(self, path: str) -> None:
        """Take down what was changed by hand."""
        self.changes.setdefault(path, self.running.step)

    def change_number(self, path: str, value: Any) -> None:
        """Change a number, or that of each slice; collective.

        Variables that the network has with it alone, such as a momentum, start from their initial values.
        """
        before = self.running
        before.engine.collect()
        with self._engine_with(numbers.changed(self.network, path, value)) as after:
            initial, mine = after.saved(), before.saved()
            added = {key: initial[key] for key in initial.keys() - mine.keys() - lazy_codes.keys(initial)}
            after.resume(before.step, {**added, **mine}, before.shown)
            after.state_changed()  # lazily evaluated codes start from V: what is kept is of before
        self.numbers[path] = np.asarray(value, float).tolist()
        self.note(path)

    def save(self) -> Saved:
        """Return copies of the whole state; collective."""
        now = self.running
        return Saved(now.step, now.arrays(), dict(self.numbers), now.shown, dict(self.changes))

    def load(self, saved: Saved) -> None:
        """Go back to a state; collective. Raises ArgumentError when it is that of another network."""
        if saved.numbers == self.numbers:
            self._resume(self.running, saved)
        else:
            with self._engine_with(self._network_of(saved)) as after:
                self._resume(after, saved)
        self.numbers, self.changes = dict(saved.numbers), dict(saved.changes)

    def close(self) -> None:
        """Free the memory and close the input files."""
        if self._running is not None:
            self._running.close()
        self._running, self._records = None, Memory()

    def _network_of(self, saved: Saved) -> Network:
        network = self.given.network
        try:
            for path, value in saved.numbers.items():
                network = numbers.changed(network, path, value)
        except ArgumentError as error:
            raise self._other_network(saved) from error
        return network

    def _resume(self, running: Running, saved: Saved) -> None:
        if not running.fits(saved):
            raise self._other_network(saved)
        running.resume(saved.step, saved.arrays, saved.shown)

    def _other_network(self, saved: Saved) -> ArgumentError:
        layers = ", ".join(self.network.layers)
        return ArgumentError("saved", "this is the state of another network", saved, f"one with {layers}")

    @contextmanager
    def _engine_with(self, network: Network) -> Iterator[Running]:
        """Open an engine for other numbers, which takes the place of the present one after the block."""
        loaded = replace(self._loaded, network=network)
        with loaded.placing():
            assembly = self._assembly.with_numbers(network)
        self.running.keep()
        after = Running(loaded, assembly, self._records)
        try:
            yield after
        except BaseException:
            after.close()
            raise
        self._spent = self.times
        self.running.close()
        self._loaded, self._assembly, self._running = loaded, assembly, after


class SteppedNetwork:
    """What a driver advances: an open network, from sync event to sync event."""

    def __init__(self, opened: Opened, advance: Callable[[int], None] | None = None) -> None:
        """`advance` makes the steps up to one, in place of those of the engine."""
        self._opened, self._advance = opened, advance

    @property
    def step(self) -> int:
        """Number of steps made."""
        return self._opened.running.step

    @property
    def blocking_io(self) -> BlockingIO:
        """The blocking operations that this process is inside of."""
        return self._opened.running.engine.blocking_io

    @property
    def progress(self) -> int:
        """A number that grows with the progress of any slice, and of an evaluation."""
        return self._opened.running.progress

    @property
    def warming_up(self) -> bool:
        """Whether the engine has not yet reached its first sync event."""
        return self._opened.running.engine.warming_up

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet, or before which a live source is asked."""
        return self._opened.running.next_sync()

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`; collective."""
        (self._advance or self._opened.running.advance)(stop)
