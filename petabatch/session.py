"""A run in progress: an engine with its files, progress report and signal handling."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import numpy as np

from petabatch.engine.driver import At, Hook, always, drive
from petabatch.engine.engine import WAITING, Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.engine.events import events_of_all
from petabatch.engine.failed_points import FailedPoints, forget
from petabatch.engine.failure import Failure
from petabatch.engine.images import files_shown
from petabatch.engine.recorder import Record
from petabatch.errors import NonFiniteError, StoppedEarly
from petabatch.logs import log
from petabatch.network.slices import coordinates
from petabatch.network.until import GAP
from petabatch.parallel.comm import Comm
from petabatch.parallel.watchdog import Watch
from petabatch.progress import Progress
from petabatch.spec.duration import seconds
from petabatch.spec.load import Loaded
from petabatch.stop_signals import StopFlag
from petabatch.storage.checkpoint import save_checkpoint
from petabatch.storage.claim import Claim
from petabatch.storage.description import Description, Status, recorded_provenance
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import PAUSE
from petabatch.storage.provenance import of_run
from petabatch.storage.run_sink import sink_of
from petabatch.storage.sink import RunSink


class RunSession:
    """An engine with the run directory it writes to."""

    def __init__(
        self,
        directory: RunDirectory,
        loaded: Loaded,
        engine: Engine,
        comm: Comm,
        claim: Claim,
        evaluation: Evaluation | None = None,
        failed: FailedPoints | None = None,
    ) -> None:
        self.failed = failed or FailedPoints(loaded.network.run.batch)
        self.directory, self.loaded, self.engine, self.comm = directory, loaded, engine, comm
        self.claim, self.evaluation = claim, evaluation
        self.streams = [
            one for recording in engine.features.whole_plan.recordings for one in recording.streams
        ]
        self.sink: RunSink = sink_of(directory, engine)
        self.coordinates = coordinates(loaded.network, self.streams)
        self.files = files_shown(engine.readers)
        self.started = self._index_due = time.monotonic()
        self._first = engine.step
        before = recorded_provenance(directory) or {}
        self._shown = self._certified = 0
        """Displays of this rank so far, and how many of them came to the gap of `run.until`."""
        devices = comm.gather(engine.backend.name) or ()
        self.provenance = of_run(loaded, comm, devices, directory=directory, before=before)
        self._spent_before = {"all": before.get("seconds", 0.0), **before.get("times", {})}
        self._timed_before = before.get("timed_steps", 0)
        self._waited_before = dict(comm.waited)
        self._rank_times: list[dict[str, float]] = []
        """The times of all ranks up to the last flush, on rank 0."""
        for failures in comm.gather(engine.failures) or ():  # of slices that have no first image
            self._report_failed(failures)

    def run(self, quiet: bool, flag: StopFlag) -> None:
        """Run to the end; raise StoppedEarly, with a checkpoint written, on a signal or a time limit."""
        engine, network = self.engine, self.loaded.network
        first = engine.step
        with (
            closing(self),
            Watch(self.comm, seconds(network.run.stuck_after)) as watch,  # before anything is compiled
            Progress(
                first,
                engine.plan.length,
                network.run.display,
                network.batch,
                quiet or self.comm.rank > 0,
                kernels=lambda: engine.warm_up.seconds,
            ) as progress,
        ):
            log.debug(
                "rank %d of %d on %s, process %d, slices %d to %d",
                self.comm.rank,
                self.comm.size,
                self.comm.hosts[self.comm.rank],
                os.getpid(),
                engine.state.lo,
                engine.state.hi - 1,
            )
            log.info("%s in %s", f"resumed at step {first}" if first else "started", self.directory.path)
            for _ in drive(engine, *self._hooks(flag, progress), watch=watch):
                pass
            self._finish("done")
            self._report_convergence()
            self.comm.barrier()  # the index is complete before any rank opens it
        log.info("done: %s (%s)", self.directory.run_file, progress.summary(engine.step))  # below the bar

    def close(self) -> None:
        """Close the input files."""
        self.engine.close()
        if self.evaluation is not None:
            self.evaluation.close()

    def checkpoint(self) -> None:
        """Save the whole state at the current step; collective.

        Nothing is written if a number is not finite that should be, unless slices stop alone: the checkpoint
        before stays, and the run ends at the next step that is judged. Raises NonFiniteError if this is one.
        """
        engine, state = self.engine, self.engine.state
        engine.collect()
        if not engine.plan.tolerant and not self._is_finite():
            return
        saved = engine.saved()
        arrays = engine.features.whole(saved)
        if not engine.features.writes:
            return
        with self._writing():
            save_checkpoint(
                self.directory,
                engine.step,
                arrays,
                {key for key in saved if state.variables[key].per == "slice"},
                {"step": engine.step, **self.failed.meta},
                lo=state.lo,
                hi=state.hi,
                batch=self.loaded.network.batch,
                rank=engine.comm.rank,
                gather=engine.comm.gather,
                keep=self.loaded.network.checkpoint.keep,
            )

    def _is_finite(self) -> bool:
        """Return whether all is finite that a checkpoint holds, on all ranks; raises as `checkpoint` does."""
        step, mine = self.engine.step, ""
        try:
            self.engine.state.assert_finite(step)
        except NonFiniteError as error:
            if self.engine.plan.judges(step):
                raise
            mine = str(error).partition("\n")[0]
        said: str = self.comm.broadcast(next(filter(None, self.comm.gather(mine) or ()), ""))
        if said and self.comm.rank == 0:  # others log errors alone
            log.warning("no checkpoint is written at step %d: %s", step, said)
        return not said

    def index(self, status: Status, until: int | None = None) -> None:
        """Make readable what is committed, up to step `until`; called on rank 0 only."""
        batch = self.loaded.network.batch
        with self._writing():
            about = {**self.provenance, **self._spent(), **self.failed.about}
            differing = (*self.coordinates, *self.failed.coordinates(batch))
            described = Description(tuple(self.streams), about, batch, status, self.files, differing)
            self._index_due = time.monotonic() + PAUSE * self.sink.index(described, until)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        engine = self.engine
        with engine.stopwatch.measure("files"), engine.blocking_io, self.claim.writing():
            yield

    def _times(self) -> dict[str, float]:
        """Return the seconds of this process: all, and by activity."""
        waited = {name: seconds - self._waited_before[name] for name, seconds in self.comm.waited.items()}
        return {"all": time.monotonic() - self.started, **self.engine.times(), **waited}

    def _spent(self) -> dict[str, object]:
        """Return the seconds that the run has taken, for how many steps, and what for.

        With those before it was resumed, so that steps which are computed again count twice.
        With several ranks also those of each, since it was started or resumed.
        """
        now = self._times()
        names = [*now, *(name for name in self._spent_before if name not in now)]
        spent = {n: round(self._spent_before.get(n, 0.0) + now.get(n, 0.0), 3) for n in names}
        steps = int(self._timed_before) + self.engine.step - self._first
        record: dict[str, object] = {"seconds": spent.pop("all"), "timed_steps": steps, "times": spent}
        if len(self._rank_times) > 1:
            record["rank_times"] = {n: [round(one.get(n, 0.0), 3) for one in self._rank_times] for n in now}
        return record

    def _hooks(self, flag: StopFlag, progress: Progress) -> Iterator[Hook]:
        """Yield what is done at sync events; all are collective. After the last step, `_finish` is."""
        plan = self.engine.plan

        def report(step: int) -> None:
            progress.update(step, self._latest("total"), self._latest("fraction"))

        def stops(step: int) -> bool:
            asked = flag.received or self._out_of_time()
            return step < plan.length and bool(self.comm.any(asked))

        def stop(step: int) -> None:
            self._finish("stopped")
            raise StoppedEarly(
                f"stopped at step {step} of {plan.length}\n"
                f"    hint:     petabatch resume {self.directory.path}",
                self.comm.rank,
            )

        def saves(step: int) -> bool:
            return step < plan.length and plan.checkpoint > 0 and step % plan.checkpoint == 0

        def flushes(step: int) -> bool:
            return saves(step) or (step < plan.length and step % plan.flush == 0)

        if self.evaluation is not None:
            yield self.evaluation
        yield At(always, report)
        yield At(stops, stop)
        yield At(flushes, lambda step: self._flush("running"))
        yield At(saves, lambda step: self.checkpoint())

    @property
    def _tolerance(self) -> float:
        until = self.loaded.network.run.until
        return math.inf if until is None else until.gap

    def _report_convergence(self) -> None:
        """Warn if `run.until` stopped no display early, or hardly any; collective."""
        ranks = self.comm.gather((self._shown, self._certified))
        if ranks is None:
            return
        shown, certified = (sum(column) for column in zip(*ranks, strict=True))
        if shown and not certified:
            log.warning(
                "run.until: none of the %d displays came to a gap of %g, so none ended early\n"
                "    hint:     give them more steps (run.display) or a larger gap; `petabatch check` "
                "compares coefficient and threshold",
                shown,
                self._tolerance,
            )
        elif certified < shown:
            log.info("run.until: %d of %d displays came to a gap of %g", certified, shown, self._tolerance)

    def _out_of_time(self) -> bool:
        limit = self.loaded.network.run.wall_limit
        return limit is not None and time.monotonic() - self.started > seconds(limit)

    def _report_waiting(self) -> None:
        """Log how long lanes waited for images, if any were read ahead."""
        if any(reader.read_ahead for reader in self.engine.readers.values()):
            waited = self.engine.times()[WAITING]
            share = waited / max(time.monotonic() - self.started, 1e-9)
            log.info("waited %.1f s for images, %.1f %% of the time", waited, 100 * share)

    def _finish(self, status: Status) -> None:
        self._report_waiting()
        self._flush(status)
        self.checkpoint()

    def _flush(self, status: Status) -> None:
        """Put what was recorded into the sink, and commit what all ranks have put; collective."""
        engine, part = self.engine, None
        records, first = self._recorded(), engine.recorder.first
        if first <= engine.step and engine.features.writes:
            records = self.sink.shared(records)
            with self._writing():
                part = self.sink.put(records, first, engine.step)
        engine.flushed()
        ranks = self.comm.gather((part, self._times(), engine.failures))
        if ranks is None:
            return
        self._rank_times = [times for _, times, _ in ranks]
        for _, _, failures in ranks:
            self._report_failed(failures)
        with self._writing():
            self.sink.commit([part for part, _, _ in ranks])
        if status != "running" or time.monotonic() >= self._index_due:
            self.index(status)
        else:
            with self._writing():
                self.sink.tidy()

    def _recorded(self) -> Sequence[Record]:
        """Return what this rank writes of what was recorded since the last flush; collective."""
        engine, lo = self.engine, self.engine.state.lo
        taken = events_of_all(engine.recorder.take(engine.step), self.streams, lo, engine.comm)
        records = [one for one in taken if one.stream.batched or engine.comm.rank == 0]
        forget(records, engine.failures, lo)
        records = list(engine.features.records(records))
        for record in records:
            if record.stream.path == f"probes/{GAP}":
                self._shown += record.values.size
                self._certified += int((record.values <= self._tolerance).sum())
        return records

    def _report_failed(self, failures: Mapping[int, Failure]) -> None:
        """Take note of slices that have stopped, and tell of those that are new."""
        told = {number // self.failed.batch for number in self.failed.slices}
        for number in sorted(failures, key=lambda each: (failures[each].step, each)):
            one, point = failures[number], number // self.failed.batch
            if point not in told:
                log.warning("point %d failed at step %d: %s", point, one.step, one.why)
                told.add(point)
        self.failed.slices.update(failures)

    def _latest(self, quantity: str) -> tuple[str, float] | None:
        """Return a probe and the latest value of its quantity, on rank 0; collective.

        It is averaged over all slices that have not failed; what ranks with parts of a slice have adds up.
        """
        latest, state = self.engine.recorder.latest(quantity), self.engine.state
        failed = [number - state.lo for number in self.engine.failures]
        parts = self.comm.gather(None if latest is None else np.delete(latest[1], failed))
        if latest is None or parts is None:
            return None
        sound = np.concatenate(parts)
        parts_of_slices = self.engine.features.group.size
        return (latest[0], parts_of_slices * float(sound.mean())) if sound.size else None
