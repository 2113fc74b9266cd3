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
import threading
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch.engine.gpu.context import GpuDevice, OnGpu
from petabatch.engine.images import ImageReader
from petabatch.engine.lane import Lane
from petabatch.engine.recorder import Recorder
from petabatch.engine.split import Split
from petabatch.engine.state import State
from petabatch.engine.steppers.dense import DenseStepper, Rows
from petabatch.engine.updates import Updates
from petabatch.logs import log
from petabatch.network.plan import Plan
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.comm import Comm, share
from petabatch.progress import PATIENCE

_POLL = 0.005
"""Seconds between looks at messages on their way while lanes run."""

_PARTS = 4
"""Parts of the way to the next sync event in which the last lanes take turns."""


class Engine:
    """Advances the slices of this rank."""

    def __init__(
        self,
        plan: Plan,
        comm: Comm,
        threads: int | None = None,
        device: GpuDevice | None = None,
        split: Split | None = None,
    ) -> None:
        """Allocate the state; with `split` of a part of the features, and `comm` are those with the same."""
        plan = plan if split is None else split.plan
        network = plan.graph.network
        self.plan, self.comm, self.split = plan, comm, split
        lo, hi = share(network.run.batch, comm.rank, comm.size)
        self.state = State(plan.graph, lo, hi)
        self.updates = Updates(plan, comm, self.state)
        self.recorder = Recorder(plan.recordings, hi - lo, np.zeros if device is None else device.staging)
        self.step = 0
        self.blocking_io = BlockingIO()
        self.warming_up = True
        """It is not known yet how long a block of steps takes, its update, and what is compiled for it."""
        self.readers = {name: ImageReader(plan.graph, name, self.blocking_io) for name in plan.inputs}
        self.threads = threads or network.run.threads or len(os.sched_getaffinity(0))
        self.gpu = OnGpu(device, self.state, self.readers, self.threads) if device is not None else None
        self.lanes = list(self._lanes())

    def start(self) -> None:
        """Set the state of step 0."""
        self.state.start(self.readers)

    def resume(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the state of a checkpoint made at the end of `step`."""
        self.state.restore(arrays)
        self.step = step

    @property
    def device(self) -> str:
        """What the steps of this rank are made on."""
        if self.gpu is None:
            return f"cpu, {self.threads} threads"
        return f"gpu, {self.gpu.device.name}, {self.gpu.device.uuid}"

    def collect(self) -> None:
        """Bring `state` up to date, where the newest is on a GPU or not written yet."""
        for lane in self.lanes:
            lane.show()
        if self.gpu is not None:
            self.gpu.resident.collect()

    def run(self) -> Generator[int, None, None]:
        """Run to the end, yielding the number of steps made at every sync event."""
        if self.gpu is not None:
            self.gpu.resident.forget()
        self._open_recorder(initial=self.step == 0)
        if self.step == 0:
            self._record_initial()
        # Lanes call BLAS on one thread each: bits must not depend on how many threads there are.
        with (
            threadpool_limits(1),
            self._pool() as pool,
            self._rows(),
            closing(self.recorder),
        ):
            self._compile(pool)
            while self.step < self.plan.length:
                stop = self.plan.next_sync(self.step)
                waiting = deque((lane, self.step) for lane in self.lanes)
                workers = [pool.submit(self._work, waiting, stop) for _ in range(self.workers)]
                poll = _POLL if self.updates.late else None
                while wait(workers, poll, FIRST_EXCEPTION).not_done and not _failed(workers):
                    self.updates.poll()
                for worker in workers:
                    worker.result()
                self._record_shared(self.step + 1, stop - 1)
                self.step = stop
                if self.updates.due(stop):
                    pool.submit(self._update, stop).result()
                self._record_shared(stop, stop)
                self.recorder.reached = stop
                self.warming_up = False
                yield stop

    @property
    def progress(self) -> int:
        """A number that grows whenever a lane has made steps, or all of them."""
        return self.step + sum(lane.reached for lane in self.lanes)

    def _lanes(self) -> Iterator[Lane]:
        """Yield the lanes of this rank: each slice by itself, or on a GPU as many as fit in its memory."""
        if self.split is not None:
            # One lane: the parts of all slices' features meet in one message.
            everything = slice(0, self.state.hi - self.state.lo)
            yield Lane(self.plan, self.state, everything, self.recorder, self.readers, split=self.split)
        elif self.gpu is None:
            for index in range(self.state.hi - self.state.lo):
                yield Lane(self.plan, self.state, slice(index, index + 1), self.recorder, self.readers)
        else:
            self.gpu.carry(self.updates)
            for lanes in self.gpu.resident.lanes:
                yield Lane(self.plan, self.gpu.resident, lanes, self.recorder, self.readers, self.gpu)

    @property
    def workers(self) -> int:
        """Threads that advance lanes."""
        return 1 if self.gpu is not None else min(self.threads, len(self.lanes))

    def _pool(self) -> ThreadPoolExecutor:
        if self.gpu is None:
            return ThreadPoolExecutor(self.workers, "lane")
        return ThreadPoolExecutor(1, "gpu", self.gpu.device.enter)

    def _work(self, waiting: deque[tuple[Lane, int]], stop: int) -> None:
        """Take lanes and the steps they have reached, and advance them to `stop`, until none is left.

        The last few take turns in parts of the way, or one thread would often wait for another's last lane.
        """
        part = -(-(stop - self.step) // _PARTS)
        while True:
            try:
                lane, step = waiting.popleft()
            except IndexError:
                return
            turns = 1 < self.workers < len(self.lanes) and len(waiting) < self.workers
            last = min(step + part, stop) if turns else stop
            try:
                with self._holding(lane):
                    lane.run(step, last)
            except BaseException:
                waiting.clear()
                raise
            if last < stop:
                waiting.append((lane, last))

    def _holding(self, lane: Lane) -> AbstractContextManager[None]:
        return nullcontext() if self.gpu is None else self.gpu.holding(lane.lanes)

    def _update(self, step: int) -> None:
        self.updates.make(step)
        if self.gpu is not None:
            self.gpu.resident.refresh()

    def _compile(self, pool: ThreadPoolExecutor) -> None:
        """Have the kernels ready before the first step; say so when they are not yet cached on disk."""
        fused = self.lanes[0].fused
        if isinstance(fused, DenseStepper):
            text = "compiling kernels, about ten seconds; only the first run on a machine does"
            notice = threading.Timer(PATIENCE, log.info, [text])
            notice.start()
            pool.submit(fused.run, self.step, self.step, False).result()
            notice.cancel()

    @contextmanager
    def _rows(self) -> Iterator[None]:
        """Let several threads work on each slice while there are fewer slices than threads; same bits."""
        each = self.threads // len(self.lanes)
        loops = [lane.fused for lane in self.lanes if isinstance(lane.fused, DenseStepper)]
        with ThreadPoolExecutor(self.threads, "rows") as pool:
            for loop in loops:
                loop.rows = Rows(pool, each) if each > 1 and loop.worth_sharing else None
            try:
                yield
            finally:
                for loop in loops:
                    loop.rows = None

    def flushed(self) -> None:
        """Make room for what is recorded until the next flush; the caller has taken the records."""
        self._open_recorder()

    def _open_recorder(self, initial: bool = False) -> None:
        last = self.step + self.plan.flush - self.step % self.plan.flush
        self.recorder.open(self.step, min(last, self.plan.length), initial)

    def _record_initial(self) -> None:
        for lane in self.lanes:
            with self._holding(lane):
                lane.record(0)
        self._record_shared(0, 0)

    def _record_shared(self, first: int, last: int) -> None:
        """Record weights that all slices share, due in steps first .. last; rank 0 alone keeps them."""
        for index, recording in enumerate(self.plan.recordings):
            for step in recording.steps(first, last) if not recording.stream.batched else ():
                row = self.recorder.row(index, step)
                row[...] = self.state.arrays[recording.key].reshape(row.shape)


def _failed(workers: list[Future[None]]) -> bool:
    return any(worker.done() and worker.exception() is not None for worker in workers)
