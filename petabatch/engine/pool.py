"""A pool of slices: each takes a slot of an engine for the whole run, and leaves it to the next one.

A slot is the place of a few slices on one thread, or of many on a GPU. Slots do not wait for each other: each
slice is advanced from its own step 0 to the last, as it is in a run of all slices, and with the same bits.
Where ranks share slices, each slot of the first of them tells the same slot of the others what comes next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import numpy as np

from petabatch.engine.driver import Driver
from petabatch.engine.engine import Engine
from petabatch.engine.failure import OF_A_SLICE, Failure
from petabatch.engine.group import Group
from petabatch.engine.recorder import Record
from petabatch.engine.start import Start
from petabatch.engine.stopping import Stopped, Stops

WAITING = "waiting for slices"
"""Activity of a slot that has none."""
_POLL = 0.02
"""Seconds between two looks at whether the run is to stop.

Where ranks share slices, idle slots look as often. An error of one rank in another slot reaches the others
only by what slots exchange: a slot that waits for slices without a limit leaves other ranks in a receive.
"""


@dataclass(frozen=True)
class Made:
    """Slices that have reached the end of the run, or failed."""

    numbers: Sequence[int]
    records: Sequence[Record]
    """What was recorded of them, `[n, slices, ...]`, and of what all share; nothing where one raised."""
    failures: Sequence[Failure | None]
    """Why each failed."""


class _Turn:
    """Slices in a slot, from their step 0 on; the pool is watched for all of them."""

    progress, warming_up = 0, False

    def __init__(self, group: Group, pool: Pool) -> None:
        self._group, self._pool, self._plan, self.step = group, pool, pool.plan, 0
        self.blocking_io = pool.blocking_io

    def next_sync(self) -> int:
        """Return the next step at whose end slices of a run meet."""
        return self._plan.next_sync(self.step)

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`."""
        self._group.run(self.step, stop)
        self._pool.reached(stop - self.step)
        self.step = stop


class Pool:
    """The slots of an engine, whose plan has a single flush and is tolerant."""

    def __init__(self, engine: Engine, size: int) -> None:
        """Make slots of `size` slices; the engine has as many slices as all of them, in its initial state."""
        self._engine, self._stopping = engine, threading.Event()
        self.plan, self.blocking_io = engine.plan, engine.blocking_io
        self._steps, self._under_way = 0, dict[int, Group]()
        """For hang detection: steps up to sync events, counted without a lock, and the groups under way."""
        self._shared: Sequence[Record] = ()
        self._slots = engine.backend.slots(size)
        self._size, self._group = size, engine.features.group

    @property
    def warming_up(self) -> bool:
        """Whether no slice has yet reached its first sync event."""
        return self._steps == 0

    @property
    def progress(self) -> int:
        """A number that changes with the progress of any slice."""
        lanes = [lane for group in tuple(self._under_way.values()) for lane in group.all]
        return self._steps + sum(lane.reached for lane in lanes)

    def reached(self, steps: int) -> None:
        """Count steps of slices that have reached a sync event."""
        self._steps += steps

    def run(
        self, waiting: Iterator[Sequence[int]], stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[Made]:
        """Advance slices that come in parts of at most a slot; yield them as they are done, in any order.

        A part is taken from `waiting` on this thread, one for each slot ahead. Raises Stopped when `stopped`.
        Of ranks that share slices, the first is asked what waits, and has what is recorded.
        """
        ahead: SimpleQueue[Sequence[int] | None] = SimpleQueue()
        done: SimpleQueue[Sequence[Made] | BaseException] = SimpleQueue()
        engine = self._engine
        self._stopping.clear()
        with engine.running() as threads, engine.computing():
            self._record_shared()
            workers = [threads.submit(self._work, slot, ahead, done) for slot in self._slots]
            try:
                if self._group.rank > 0:
                    self._follow(workers, done, stopped)
                    return
                left = sum(self._put(waiting, ahead) for _ in range(2 * len(workers)))
                while left:
                    if stopped():
                        raise Stopped
                    try:
                        found = done.get(timeout=_POLL)
                    except Empty:
                        continue
                    if isinstance(found, BaseException):
                        raise found
                    left += self._put(waiting, ahead) - 1
                    yield from found
            finally:
                self._stopping.set()
                for _ in workers:
                    ahead.put(None)

    def _follow(
        self,
        workers: Sequence[Future[None]],
        done: SimpleQueue[Sequence[Made] | BaseException],
        stopped: Callable[[], bool],
    ) -> None:
        """Wait until slots are told that there is nothing more; raises the error of one."""
        ended = False
        while not ended:
            ended = all(worker.done() for worker in workers)
            if stopped():
                self._stopping.set()
            with suppress(Empty):
                while True:
                    found = done.get(timeout=_POLL)
                    if isinstance(found, BaseException):
                        raise found

    def _put(self, waiting: Iterator[Sequence[int]], ahead: SimpleQueue[Sequence[int] | None]) -> int:
        """Take a part that waits, if there is one; return how many."""
        numbers = next(waiting, None)
        if numbers is None:
            return 0
        for number in numbers:
            self._engine.backend.read_ahead(number)
        ahead.put(numbers)
        return 1

    def _work(
        self,
        slot: range,
        ahead: SimpleQueue[Sequence[int] | None],
        done: SimpleQueue[Sequence[Made] | BaseException],
    ) -> None:
        """Advance slices in a slot, until there are no more."""
        clock = self._engine.lanes[slot.start].stopwatch
        while True:
            try:
                with clock.measure(WAITING):
                    numbers = self._next(slot, ahead)
                if numbers is None:
                    return
                size = len(slot)  # of the last slot, it may be less than that of a part
                parts = (numbers[first : first + size] for first in range(0, len(numbers), size))
                done.put([made for part in parts for made in self._advanced(slot, part)])
            except BaseException as error:
                done.put(error)
                return

    def _next(self, slot: range, ahead: SimpleQueue[Sequence[int] | None]) -> Sequence[int] | None:
        """Return what a slot advances next, on all ranks that share slices; None if there is nothing.

        Raises Stopped where one of these has an error in another slot, for which it does not wait here.
        """
        if self._group.size == 1:
            return None if (found := ahead.get()) is None or self._stopping.is_set() else found
        while (numbers := self._told(slot, ahead)) is not None and not numbers:
            if self._stops(slot):
                raise Stopped
        return numbers

    def _told(self, slot: range, ahead: SimpleQueue[Sequence[int] | None]) -> Sequence[int] | None:
        """Return what the first rank has for a slot, None if there is nothing more; it may be none yet."""
        group, told = self._group, np.full(self._size + 1, -1)
        if group.rank > 0:
            group.exchange({}, {0: told}, slot.start)
            count, *found = told.tolist()
            return found[:count] if count >= 0 else None
        numbers: Sequence[int] | None = ()
        with suppress(Empty):
            numbers = ahead.get(timeout=_POLL)
        if self._stopping.is_set():
            numbers = None
        if numbers is not None:
            told[: len(numbers) + 1] = len(numbers), *numbers
        group.exchange(dict.fromkeys(range(1, group.size), told), {}, slot.start)
        return numbers

    def _stops(self, slot: range) -> bool:
        """Return whether a slot is to stop, on any rank that shares its slices: then on all of them."""
        mine = np.array([self._stopping.is_set()], np.int64)
        self._group.add_parts(mine, everywhere := np.empty_like(mine), slot.start)
        return bool(everywhere[0])

    def _advanced(self, slot: range, numbers: Sequence[int]) -> Iterator[Made]:
        """Advance slices together; where one raises, in parts, until it is known which."""
        try:
            yield self._together(slot, numbers)
        except OF_A_SLICE as error:
            if self._group.size > 1 and not error.in_group:  # others are waiting for this rank
                error.slices = numbers
                raise
            if len(numbers) == 1:
                yield Made(numbers, (), (Failure.of(error, 0),))
                return
            half = len(numbers) // 2
            yield from self._advanced(slot, numbers[:half])
            yield from self._advanced(slot, numbers[half:])

    def _together(self, slot: range, numbers: Sequence[int]) -> Made:
        engine, plan = self._engine, self._engine.plan
        self._under_way.pop(slot.start, None)  # with its memory
        display = plan.graph.network.run.display
        images = {
            name: partial(engine.backend.first, name, reader.layer.item(1, display) == 0)
            for name, reader in engine.readers.items()
        }
        lanes = []
        for place, number in zip(slot[: len(numbers)], numbers, strict=True):
            here, slices = slice(place, place + 1), range(number, number + 1)
            state = engine.state.seated(here, slices)
            state.clear()
            Start(state, engine.features, tag=slot.start).fill_slices(images)
            lanes.append(engine.lane(here, slices, engine.lanes[place].stopwatch))
        engine.backend.seated()
        self._under_way[slot.start] = group = Group(lanes)
        columns = [one.of(group.lanes) for one in engine.recorder.take(plan.length) if one.stream.batched]
        for one in columns:
            one.values[...] = 0

        def leave(step: int) -> None:
            raise Stopped

        stops = Stops(lambda: self._stops(slot), plan.length, leave)
        with engine.backend.holding(group.lanes):
            group.record(0)
            if stops.due(0):
                stops.at(0)
            for _ in Driver(_Turn(group, self), stops).advance(plan.length):
                pass
        engine.recorder.close()
        mine = [Record(one.stream, one.steps, one.values.copy()) for one in columns]
        records = engine.features.records(mine, slot.start)
        return Made(numbers, [*self._shared, *records], [lane.failure for lane in lanes])

    def _record_shared(self) -> None:
        """Record what all slices share; it does not change."""
        engine, length = self._engine, self._engine.plan.length
        engine.record_shared(1, length)
        shared = [one for one in engine.recorder.take(length) if not one.stream.batched]
        self._shared = engine.features.records(shared)
