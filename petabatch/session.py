"""A run in progress: an engine with its files, progress report and signal handling."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from petabatch.assembly import tell_of_other_software
from petabatch.clock import fires
from petabatch.convergence import Convergence
from petabatch.engine.driver import At, Hook, always, drive
from petabatch.engine.engine import WAITING, Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.engine.events import events_of_all
from petabatch.engine.images import files_shown
from petabatch.engine.recorder import Record
from petabatch.engine.stopping import Stop, Stops, stopped_early
from petabatch.errors import NonFiniteError
from petabatch.logs import log
from petabatch.network.slices import coordinates
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
from petabatch.storage.provenance import Spent, of_run
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
    ) -> None:
        self.directory, self.loaded, self.engine, self.comm = directory, loaded, engine, comm
        self.claim, self.evaluation = claim, evaluation
        self.streams = [
            one for recording in engine.features.whole_plan.recordings for one in recording.streams
        ]
        self.sink: RunSink = sink_of(directory, engine)
        self.coordinates = coordinates(loaded.network, self.streams)
        self.files = files_shown(engine.readers)
        self._index_due = time.monotonic()
        self._first = engine.step
        before = recorded_provenance(directory) or {}
        self._convergence = Convergence(loaded.network)
        devices = comm.gather(engine.backend.name) or ()
        self.provenance = of_run(loaded, comm, devices, directory=directory, before=before)
        self._spent, self._timed_before = Spent(before, comm), int(before.get("timed_steps", 0))
        self._rank_times: list[dict[str, float]] = []
        """The times of all ranks up to the last flush, on rank 0."""

    def go_back(self) -> None:
        """Make the directory that of a run which has reached the step of the engine; collective."""
        if self.comm.rank == 0:
            self.directory.clean()
            before = recorded_provenance(self.directory)
            recorded = () if before is None else (before,)
            tell_of_other_software(recorded, self.provenance, self.loaded.network, "results")
            self.index("running", until=self.engine.step)
            self.sink.drop_after(self.engine.step)
        self.comm.barrier()

    def run(self, quiet: bool, flag: StopFlag) -> None:
        """Run to the end; raise StoppedEarly, with a checkpoint written, on a signal or a time limit."""
        engine, network = self.engine, self.loaded.network
        first, self._stop = engine.step, Stop(network.run, flag, self._spent.began)
        with (
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
            for _ in drive(engine, *self._hooks(progress), watch=watch):
                pass
            self._finish("done")
            self._convergence.report(self.comm)
            self.comm.barrier()  # the index is complete before any rank opens it
        log.info("done: %s (%s)", self.directory.run_file, progress.summary(engine.step))  # below the bar

    def checkpoint(self) -> None:
        """Save the whole state at the current step; collective.

        Nothing is written if a number is not finite that should be: the checkpoint before stays, and the run
        ends at the next step that is judged. Raises NonFiniteError if this is one.
        """
        engine, state = self.engine, self.engine.state
        engine.collect()
        if not self._is_finite():
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
                {"step": engine.step},
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
            steps = self._timed_before + self.engine.step - self._first
            spent = self._spent.record(self.engine.times(), self._rank_times)
            about = {**self.provenance, **spent, "timed_steps": steps}
            described = Description(tuple(self.streams), about, batch, status, self.files, self.coordinates)
            self._index_due = time.monotonic() + PAUSE * self.sink.index(described, until)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        engine = self.engine
        with engine.stopwatch.measure("files"), engine.blocking_io, self.claim.writing():
            yield

    def _hooks(self, progress: Progress) -> Iterator[Hook]:
        """Yield what is done at sync events; all are collective. After the last step, `_finish` is."""
        plan = self.engine.plan

        def report(step: int) -> None:
            progress.update(step, self._latest("total"), self._latest("fraction"))

        def leave(step: int) -> None:
            self._finish("stopped")
            again = f"petabatch resume {self.directory.path}"
            raise stopped_early(f"at step {step} of {plan.length}", again, self.comm.rank)

        def saves(step: int) -> bool:
            return step < plan.length and fires(plan.checkpoint, step)

        def flushes(step: int) -> bool:
            return saves(step) or (step < plan.length and fires(plan.flush, step))

        if self.evaluation is not None:
            yield self.evaluation
        yield At(always, report)
        yield Stops(lambda: self.comm.any(self._out_of_time()), plan.length, leave)
        yield At(flushes, lambda step: self._flush("running"))
        yield At(saves, lambda step: self.checkpoint())

    def _out_of_time(self) -> bool:
        """Return whether this process is to stop."""
        return self._stop()

    def _report_waiting(self) -> None:
        """Log how long lanes waited for images, if any were read ahead."""
        if any(reader.read_ahead for reader in self.engine.readers.values()):
            waited = self.engine.times()[WAITING]
            share = waited / max(self._spent.seconds, 1e-9)
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
        ranks = self.comm.gather((part, self._spent.now(engine.times())))
        if ranks is None:
            return
        self._rank_times = [times for _, times in ranks]
        with self._writing():
            self.sink.commit([part for part, _ in ranks])
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
        records = list(engine.features.records(records))
        for record in records:
            self._convergence.count(record.stream.path, record.values)
        return records

    def _latest(self, quantity: str) -> tuple[str, float] | None:
        """Return a probe and the latest value of its quantity, on rank 0; collective.

        It is averaged over all slices; what ranks with parts of a slice have adds up.
        """
        latest = self.engine.recorder.latest(quantity)
        parts = self.comm.gather(None if latest is None else latest[1])
        if latest is None or parts is None:
            return None
        return latest[0], self.engine.features.group.size * float(np.concatenate(parts).mean())
