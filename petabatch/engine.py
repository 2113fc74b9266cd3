"""The only loop: lanes run to the next sync event, slices meet, and on.

for each block up to the next sync event:
    every lane, on a thread:
        every step:
            new images;  layers, level by level;  learning and recording that are due
    sums over all slices of all ranks: changes of extra_shared weights, applied once
    hand over to the caller: flush, checkpoint, signals
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch.lane import Lane
from petabatch.parallel.comm import Comm, share
from petabatch.parallel.reduce import ExactSum
from petabatch.plan import Lesson, Plan
from petabatch.recorder import Recorder
from petabatch.state import State, owned


class Engine:
    """Advances the slices of this rank."""

    def __init__(self, plan: Plan, comm: Comm, threads: int | None = None) -> None:
        network = plan.graph.network
        self.plan, self.comm = plan, comm
        lo, hi = share(network.run.batch, comm.rank, comm.size)
        self.state = State(plan.graph, lo, hi)
        self.recorder = Recorder(plan.recordings, hi - lo)
        self.step = 0
        self.readers: Mapping[str, Callable[[int, int], np.ndarray]] = {
            name: layer.source.open(layer.shape, network.run.batch, network.run.seed)
            for name, layer in plan.inputs.items()
        }
        self.lanes = [
            Lane(plan, self.state, slice(index, index + 1), self.recorder, self.readers)
            for index in range(hi - lo)
        ]
        self.threads = threads or network.run.threads or len(os.sched_getaffinity(0))

    def start(self) -> None:
        """Set the state of step 0."""
        self.state.start(self.readers)

    def resume(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the state of a checkpoint made at the end of `step`."""
        self.state.restore(arrays)
        self.step = step

    def run(self) -> Iterator[int]:
        """Run to the end, yielding the number of steps made at every sync event."""
        self._open_recorder(initial=self.step == 0)
        if self.step == 0:
            self._record_initial()
        # Lanes call BLAS on one thread each: bits must not depend on how many threads there are.
        with threadpool_limits(1), ThreadPoolExecutor(self.threads, "lane") as pool:
            while self.step < self.plan.length:
                stop = self.plan.next_sync(self.step)
                done = [pool.submit(lane.run, self.step, stop) for lane in self.lanes]
                for future in done:
                    future.result()
                self.step = stop
                due = [lesson for lesson in self.plan.lessons if lesson.reduced and lesson.due(stop)]
                if due:
                    pool.submit(self._update, due, stop).result()
                self._record_shared(stop)
                self.recorder.reached = stop
                yield stop

    def flushed(self) -> None:
        """Make room for what is recorded until the next flush; the caller has taken the records."""
        self._open_recorder()

    def _open_recorder(self, initial: bool = False) -> None:
        last = self.step + self.plan.flush - self.step % self.plan.flush
        self.recorder.open(self.step, min(last, self.plan.length), initial)

    def _record_initial(self) -> None:
        for lane in self.lanes:
            lane.record(0)
        self._record_shared(0)

    def _record_shared(self, step: int) -> None:
        """Record weights that are the same in all slices; rank 0 alone keeps them."""
        for index, recording in enumerate(self.plan.recordings):
            if not recording.stream.batched and recording.due(step):
                row = self.recorder.row(index, step)
                row[...] = self.state.arrays[recording.key].reshape(row.shape)

    def _update(self, lessons: Sequence[Lesson], step: int) -> None:
        """Sum the products of all slices, in one message for all connections, and change each one kernel."""
        network, plastic = self.plan.graph.network, self.plan.graph.plastic
        state = {lesson.name: owned(self.state.arrays, f"connections/{lesson.name}") for lesson in lessons}
        parts = {
            f"the {kind} of connection {name}": mine[kind]
            for name, mine in state.items()
            for kind in ("product", "counts")
            if kind in mine
        }
        sums = ExactSum(parts, self.comm, network.run.batch, self.state.lo).wait()
        for lesson in lessons:
            conv, mine = plastic[lesson.name], state[lesson.name]
            assert conv.learn is not None
            conv.learn.change(
                mine["weights"],
                sums[f"the product of connection {lesson.name}"],
                sums.get(f"the counts of connection {lesson.name}"),
                mine,
                lesson.update(step),
                network.run.batch,
                np,
            )
            if conv.normalize is not None:
                conv.normalize.apply(mine["weights"], np)
        self.state.refresh()
