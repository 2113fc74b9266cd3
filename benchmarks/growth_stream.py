"""Timing of the displays of one point, from a settled state that does not depend on the number of slices."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from growth_axes import Point

from petabatch.bench.trial import Trial, run
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.group import Group


class Cost(NamedTuple):
    """Cost of one step of one slice."""

    wall: float
    """Wall time in seconds."""
    processor: float
    """Processor time in seconds, over all threads."""
    undisturbed: float
    """Processor time in seconds, as the first quartile over the displays of each image, averaged over images:
    insensitive to temporary load on the machine."""


class _Clock:
    """Accumulates the processor time of a slice in each display, which may run in parts."""

    def __init__(self, group: Group, steps: int) -> None:
        self.spent: dict[int, float] = {}
        """By the step at the end of the display."""
        self._run, self._steps, self._since = group.run, steps, 0.0
        group.run = self.timed  # type: ignore[method-assign]

    def timed(self, first: int, last: int) -> None:
        begin = time.thread_time()
        self._run(first, last)
        self._since += time.thread_time() - begin
        if last % self._steps == 0:
            self.spent[last], self._since = self._since, 0.0


@dataclass(frozen=True)
class Stream:
    """A point and a kernel, ready for repeated timing."""

    point: Point
    trial: Trial
    begin: Mapping[str, np.ndarray] | None
    """The state after `settled` displays, or None to start from zero."""
    active: float
    """Mean fraction of active units at the end of a display, over the pool."""

    @classmethod
    def of(cls, point: Point, kernel: str, threads: int) -> Stream:
        """Settle: as many slices as there are images go through the first displays, one for each."""
        count, one = len(point.pool), point.workload
        begin = None
        if point.settled:
            trial = _trial(point, kernel, count, point.settled)
            engine = trial.engine(threads)
            run(engine)
            engine.collect()
            phase = np.arange(one.slices) * max(1, count // one.slices) % count
            per = engine.state.variables
            begin = {
                key: array[phase] if per[key].per == "slice" else array
                for key, array in engine.state.saved().items()
            }
        whole = _trial(point, kernel, one.slices, point.settled + one.displays)
        ends = range(one.steps, whole.plan.length + 1, one.steps)
        timed = cls(point, Trial(replace(whole.plan, stops=tuple(ends))), begin, 0.0)
        return replace(timed, active=timed._activity(threads))

    def cost(self, threads: int) -> Cost:
        """Time all displays after those that settle."""
        engine = self._engine(self.trial, threads)
        clocks = [_Clock(group, self.point.workload.steps) for group in engine.dispatch.groups]
        begin = time.perf_counter(), time.process_time()
        run(engine)
        wall, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
        one, images = self.point.workload, len(self.point.pool)
        seen: list[list[float]] = [[] for _ in range(images)]
        for slice_, clock in enumerate(clocks):
            first = slice_ * max(1, images // one.slices)
            for display in range(one.displays):
                end = (self.point.settled + display + 1) * one.steps
                seen[(first + display) % images].append(clock.spent[end])
        least = float(np.mean([np.percentile(times, 25) for times in seen if times])) / one.steps
        return Cost(wall / one.slice_steps, processor / one.slice_steps, least)

    def _activity(self, threads: int) -> float:
        one, settled = self.point.workload, self.point.settled
        turns = max(1, len(self.point.pool) // one.slices)  # displays in which all images are seen
        ends = [(settled + turn + 1) * one.steps for turn in range(turns)]
        plan = _trial(self.point, self.trial.plan.graph.network.run.kernel, one.slices, settled + turns).plan
        watched = Trial(replace(plan, stops=tuple(ends)))
        engine, found = self._engine(watched, threads), []
        for step in drive(engine):
            if step in ends:
                found.append(watched.active(engine) or 0.0)
            if step % plan.flush == 0:
                engine.flushed()
        return float(np.mean(found))

    def _engine(self, trial: Trial, threads: int) -> Engine:
        engine = trial.engine(threads)
        if self.begin is not None:
            engine.resume(self.point.settled * self.point.workload.steps, self.begin)
        return engine


def _trial(point: Point, kernel: str, slices: int, displays: int) -> Trial:
    one = replace(point.workload, slices=slices, displays=displays)
    images = point.pool[np.arange(max(slices, len(point.pool))) % len(point.pool)]
    return Trial.of(one.network(kernel, images), one.steps * displays)
