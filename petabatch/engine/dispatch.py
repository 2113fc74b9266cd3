"""The dispatch of groups of slices to the threads of a rank."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from petabatch.engine.backend import Backend, Host
from petabatch.engine.group import Group, groups
from petabatch.engine.lane import Lane
from petabatch.engine.reduction import Reduction
from petabatch.engine.steppers import Rows

_POLL = 0.001
"""Seconds between polls of messages under way while groups run."""
_WORTH_WAKING = 2e-4
"""Seconds of work for which it is worth while to wake a thread."""
_PARTS = 4
"""Parts of the way to the next sync event in which the last groups take turns."""


class Dispatch:
    """Advances the groups of a rank on threads; how many there are changes no bit."""

    def __init__(self, lanes: Sequence[Lane], backend: Backend, short: int, in_order: bool) -> None:
        """Divide the lanes into groups; fewer than `short` steps take no longer than waking a thread.

        With `in_order`, groups run to their end in the order of their slices, which is the same on all ranks
        that share them.
        """
        self._lanes, self._backend, self._short, self._in_order = lanes, backend, short, in_order
        self._grouped = {few: list(groups(lanes, backend, few)) for few in (False, True)}
        self.groups = self._grouped[False]
        """Those that made the last steps."""
        self.workers = min(backend.workers, len(self.groups))
        self._pace = math.inf
        """Processor time of a step of all slices, in the last call of a few."""

    def advance(self, pool: Executor, first: int, stop: int, reduction: Reduction) -> None:
        """Make steps first+1 .. stop, while sums over ranks under way go on.

        Of few steps, this thread makes its share, or all of them, unless there are sums for it to move.
        """
        steps = stop - first
        few = steps < self._short
        self.groups = self._grouped[few]
        waiting = deque((group, first) for group in self.groups)
        turns = 1 < self.workers < len(self.groups) and not self._in_order
        part = -(-steps // _PARTS) if turns else steps
        reduction.poll()
        here = few and isinstance(self._backend, Host) and not reduction.pending
        helpers, spent = self._helpers(steps) if here else self.workers, self._spent
        workers = [pool.submit(self._work, waiting, stop, part) for _ in range(helpers)]
        try:
            if here:
                self._work(waiting, stop, part)
            while reduction.pending and _busy(workers):
                reduction.poll()
        finally:
            failed = [worker.exception() for worker in workers]  # of all: nothing changes after an error
        for error in failed:
            if error is not None:
                raise error
        if here:
            self._pace = (self._spent - spent) / steps

    def _helpers(self, steps: int) -> int:
        """Return how many threads are worth waking to make a few steps with this one."""
        return int(min(self.workers - 1, steps * self._pace / _WORTH_WAKING))

    @property
    def _spent(self) -> float:
        """Processor time of the groups so far, in seconds."""
        return sum(group.all[0].stopwatch.spent.get("lane", 0.0) for group in self.groups)

    def _work(self, waiting: deque[tuple[Group, int]], stop: int, part: int) -> None:
        """Take groups and the steps they have reached, and advance them to `stop`, until none is left.

        The last few take turns in parts of the way, or one thread would often wait for the last group of
        another.
        """
        while True:
            try:
                group, step = waiting.popleft()
            except IndexError:
                return
            last = min(step + part, stop) if len(waiting) < self.workers else stop
            try:
                with self._backend.holding(group.lanes):
                    group.run(step, last)
            except BaseException:
                if not self._in_order:  # else other ranks wait for what is left, and come to the same error
                    waiting.clear()
                raise
            if last < stop:
                waiting.append((group, last))

    def record_initial(self) -> None:
        """Record the state of step 0."""
        for group in self.groups:
            with self._backend.holding(group.lanes):
                group.record(0)

    @contextmanager
    def shared_slices(self, threads: int) -> Iterator[None]:
        """Let several threads work on each slice while there are fewer groups than threads; same bits."""
        each = threads // len(self._grouped[False])
        if each <= 1:
            yield
            return
        with ThreadPoolExecutor(threads, "rows") as pool:
            for lane in self._lanes:
                lane.share(Rows(pool, each))
            try:
                yield
            finally:
                for lane in self._lanes:
                    lane.share(None)


def _busy(workers: list[Future[None]]) -> bool:
    """Wait a moment; return whether some still work, and none has failed."""
    done, others = wait(workers, _POLL, FIRST_EXCEPTION)
    return bool(others) and not any(one.exception() for one in done)
