"""The engine of a rank: lanes that run to the next sync event, at which slices meet.

for each block up to the next sync event:
    every lane, on a thread:
        every step:
            new images;  layers, level by level;  learning and recording that are due
    sums over all slices of all ranks: changes of extra_shared weights, applied once
    hand over to the caller: flush, checkpoint, signals
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import closing, contextmanager

import numpy as np
from threadpoolctl import ThreadpoolController

from petabatch.arguments import whole_number
from petabatch.clock import next_fire
from petabatch.engine.backend import Backend, Host
from petabatch.engine.dispatch import Dispatch
from petabatch.engine.failure import Failure
from petabatch.engine.features import AllFeatures, Features
from petabatch.engine.gpu.backend import GpuBackend
from petabatch.engine.images import Instead, open_images
from petabatch.engine.lane import Lane
from petabatch.engine.lane_maker import LaneMaker
from petabatch.engine.last_finite import LastFinite, keep_finite
from petabatch.engine.rank_recorder import rank_recorder
from petabatch.engine.start import Start
from petabatch.engine.state import State
from petabatch.engine.stopwatch import Stopwatch
from petabatch.engine.updates import Updates
from petabatch.engine.warm_up import WarmUp
from petabatch.kernels.cuda.device import Device
from petabatch.network.plan import Plan
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.comm import Comm, share
from petabatch.parallel.cores import fewest, lane_threads
from petabatch.threads import ONE_BLAS_THREAD, thread_pools
from petabatch.variable import Array

WAITING = "waiting for images"
"""Activity in which lanes wait for images that are being read ahead."""


class Engine:
    """Advances the slices of this rank."""

    def __init__(
        self,
        plan: Plan,
        comm: Comm,
        threads: int | None = None,
        device: Device | None = None,
        features: Features | None = None,
        slices: range | None = None,
    ) -> None:
        """Allocate the state; `comm` are the ranks with the same part of other slices, by default all.

        `slices` are those that this rank has, by default its share of them.
        """
        self.features = features or AllFeatures(plan)
        self.plan, self.comm, self.device = self.features.plan, comm, device
        run = plan.graph.network.run
        mine = slices or range(*share(self.plan.graph.network.batch, comm.rank, comm.size))
        lo, hi = mine.start, mine.stop
        self.state = State(self.plan.graph, self.plan.variables, lo, hi, self.plan.network_of)
        self.updates = Updates(self.plan, self.features, comm, self.state)
        self.step = 0
        self.blocking_io = BlockingIO()
        self.warm_up = WarmUp()
        self.stopwatch = self._stopwatch()
        self.warming_up = True
        """It is not known yet how long a block of steps takes, its update, and what is compiled for it."""
        self.readers = open_images(self.plan, self.blocking_io)
        if threads is not None:
            threads = whole_number("threads", threads, 1)
        # Ranks that share slices make the same calls, of as many slices and in the same order, in which they
        # wait for each other: for that they have equally many threads.
        self.threads = fewest(lane_threads(run, threads), self.features.group)
        self.backend: Backend = (
            Host(self.state, self.readers, self.threads, self.features.together)
            if device is None
            else GpuBackend(device, self.state, self.readers, self.threads, self.features.together)
        )
        self.recorder = rank_recorder(self.plan, self.state, self.backend.allocate)
        self.backend.sum_updates(self.updates)
        maker = LaneMaker(self.plan, self.backend, self.recorder, self.readers, self.features)
        self.lane = maker.lane
        """Makes another lane; see `LaneMaker.lane`."""
        self.lanes = list(maker.all(self.state.lo, self._stopwatch))
        in_order = self.features.group.size > 1
        self.dispatch = Dispatch(self.lanes, self.backend, self.plan.lane_steps, in_order)
        self._threads: tuple[Executor, ThreadpoolController]

    def _stopwatch(self) -> Stopwatch:
        """Return a clock that stands still while kernels are compiled and in messages between ranks."""
        return Stopwatch(lambda: self.warm_up.seconds + sum(self.comm.waited.values()))

    def start(self) -> None:
        """Set the state of step 0; where slices stop alone, one without a first image has failed.

        Raises what `Start.fill` does.
        """
        start = Start(self.state, self.features, self.plan.tolerant)
        start.fill(self.readers)
        if self.plan.tolerant:
            self.stop(start.failures)
            keep_finite(self.plan, self.state, self.features.group, self.step)

    def restart(self) -> None:
        """Set the state of step 0 again, after a run."""
        self.step = 0
        self.state.clear()
        self.start()
        for lane in self.lanes:
            lane.stepper.state_changed()

    def resume(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the state of a checkpoint made at the end of `step`; collective.

        Raises NonFiniteError when it holds numbers that are not finite.
        """
        self._take(step, arrays)
        if not self.plan.tolerant:
            self.state.assert_finite(step)
            if self.plan.retraces:
                LastFinite(self.state.lane(slice(None))).keep(step)
        elif not self.state.restore_kept(arrays):
            keep_finite(self.plan, self.state, self.features.group, self.step)
        self._go_on()

    def go_back(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over a state that was that of this engine after `step`, and need not be finite; collective."""
        self._take(step, arrays)
        self._go_on()

    def _take(self, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        self.updates.reduction.settle()
        self.state.restore(arrays)
        self.state.forget_kept()
        self.step = step

    def _go_on(self) -> None:
        for lane in self.lanes:
            lane.resume(self.step)
        self.backend.start()

    def state_changed(self) -> None:
        """Go on from `state` as it was changed from outside, after `collect`."""
        self.state.refresh()
        self.state.put_in_order()
        self.state.forget_kept()
        for lane in self.lanes:
            lane.stepper.state_changed()
        self.backend.start()

    def show(self, layer: str, images: Instead | None) -> None:
        """Show other images in an input layer than those of its source; None shows these again.

        The image that is on display changes at once, where the next step does not begin another display.
        """
        reader, display = self.readers[layer], self.plan.graph.network.run.display
        reader.instead = images
        self.backend.close()  # what was read ahead
        for lane in self.lanes:
            lane.forget_images()
        if reader.layer.item(self.step + 1, display) is not None:
            return
        self.collect()
        history, item = self.state.arrays[f"layers/{layer}/A"], reader.layer.shown(self.step, display)
        for index, number in enumerate(range(self.state.lo, self.state.hi)):
            history[index, self.step % history.shape[1]] = reader(number, item)
        self.state_changed()

    def collect(self, potentials: bool = True) -> None:
        """Bring `state` up to date with lanes, devices and sums under way; collective.

        Without `potentials`, those of lazily evaluated codes stay behind: what is enough to go on from.
        """
        self.updates.reduction.settle()
        for lane in self.lanes if potentials else ():
            lane.stepper.materialise()
        self.backend.collect()

    def saved(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint, after `collect`.

        Between two steps that are judged these are also the last finite state, to which slices go back that
        fail at the second one.
        """
        within = self.plan.tolerant and not self.plan.judges(self.step)
        return self.state.saved() | (self.state.kept() if within else {})

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet."""
        return self.plan.next_sync(self.step)

    @contextmanager
    def running(self) -> Iterator[Executor]:
        """Have threads for `advance` within the block, which begins with the records of step 0."""
        self.backend.start()
        self._open_recorder(initial=self.step == 0)
        if self.step == 0:
            self.dispatch.record_initial()
            self.record_shared(0, 0)
        with (
            self.backend.pool() as pool,
            self.dispatch.shared_slices(self.threads),
            closing(self.recorder),
            closing(self.backend),
        ):
            self._threads = pool, thread_pools()
            with self.computing(), self.warm_up:
                different = {id(lane.plan.method): lane for lane in self.lanes}.values()
                for lane in {lane.plan.method.decision: lane for lane in different}.values():
                    self.warm_up.wait_for(pool.submit(lane.warm_up))
            yield pool

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let lanes make steps within the block, which is one within `running`."""
        # Lanes call BLAS on one thread each: bits must not depend on how many threads there are.
        with ONE_BLAS_THREAD(self._threads[1]), self.warm_up.watched():
            yield

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`, which is at most the next sync event; within `running`."""
        with self.computing():
            self.advance_lanes(stop)
            self.meet(stop)

    def advance_lanes(self, stop: int) -> None:
        """Have the lanes of this rank make the steps up to `stop`; within `computing`. `meet` follows."""
        self.dispatch.advance(self._threads[0], self.step, stop, self.updates.reduction)

    def meet(self, stop: int) -> None:
        """End the steps up to `stop`, with the updates of weights that are due at it; collective."""
        self.record_shared(self.step + 1, stop - 1)
        self.step = stop
        if self.updates.due(stop):
            self._threads[0].submit(self._update, stop).result()
        self.record_shared(stop, stop)
        self.recorder.reached = stop
        if self.warming_up:
            self.warming_up = False
            self.warm_up.report()

    @property
    def failures(self) -> dict[int, Failure]:
        """Why slices have stopped, by their number; see `Plan.tolerant`."""
        stopped = [(lane, lane.failure) for lane in self.lanes if lane.failure is not None]
        return {number: failure for lane, failure in stopped for number in lane.slices}

    def stop(self, failures: Mapping[int, Failure]) -> None:
        """Let slices make no more steps that had stopped before the run was resumed."""
        for lane in self.lanes:
            lane.failure = failures.get(lane.slices.start)

    def fail(self, failures: Mapping[int, Failure]) -> None:
        """Stop slices that have failed beside their steps, unless they have stopped; within `running`."""
        for lane in self.lanes:
            failure = failures.get(lane.slices.start)
            if failure is not None and lane.failure is None:
                self._threads[0].submit(self._stop, lane, failure).result()

    def _stop(self, lane: Lane, failure: Failure) -> None:
        with self.backend.holding(lane.lanes):
            lane.stop(failure)

    @property
    def progress(self) -> int:
        """A number that grows with the progress of any lane."""
        return self.step + sum(lane.reached for lane in self.lanes)

    def times(self) -> dict[str, float]:
        """Return the seconds spent so far by activity; those of lanes as if all threads were one."""
        found: dict[str, float] = {}
        for lane in self.lanes:
            for name, seconds in tuple(lane.stopwatch.elapsed.items()):  # to which a lane may add
                found[name] = found.get(name, 0.0) + seconds / self.dispatch.workers
        found.pop("lane", None)
        waited = min(self.backend.waited / self.dispatch.workers, found.get("input", 0.0))
        found["input"] = found.get("input", 0.0) - waited
        found[WAITING] = waited
        for name, seconds in self.stopwatch.elapsed.items():
            found[name] = found.get(name, 0.0) + seconds
        return found | {"kernels": self.warm_up.seconds}

    def _update(self, step: int) -> None:
        with self.stopwatch.measure("learning"), np.errstate(over="ignore", invalid="ignore"):
            self.updates.make(step)
            self.backend.weights_changed()

    def close(self) -> None:
        """Close the input files."""
        for reader in self.readers.values():
            reader.close()

    def flushed(self) -> None:
        """Make room for what is recorded until the next flush; the caller has taken the records."""
        self._open_recorder()

    def _open_recorder(self, initial: bool = False) -> None:
        last = next_fire(self.plan.flush, self.step)
        assert last is not None
        self.recorder.open(self.step, min(last, self.plan.length), initial)

    def record_shared(self, first: int, last: int) -> None:
        """Record weights that all slices share, due in steps first .. last; rank 0 alone keeps them."""
        for index, recording in enumerate(self.plan.recordings):
            stream = recording.stream
            for step in () if stream.batched or stream.events else recording.steps(first, last):
                row = self.recorder.row(index, step)
                row[...] = self.state.arrays[recording.key].reshape(row.shape)
