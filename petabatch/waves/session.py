"""A sweep or a pool with its run directory: computed, resumed, extended, joined from chunks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.assembly import portable, tell_of_other_software
from petabatch.convergence import Convergence
from petabatch.engine.stopping import Stop, Stopped, stopped_early
from petabatch.errors import DamagedError
from petabatch.logs import log
from petabatch.parallel.comm import Comm
from petabatch.progress import duration_and_rate
from petabatch.spec.load import Loaded
from petabatch.stop_signals import StopFlag
from petabatch.storage.checkpoint import drop_checkpoints
from petabatch.storage.description import Status, recorded_provenance
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import POINTS
from petabatch.storage.index import PAUSE
from petabatch.storage.points import PointsFile, PointsFiles, new_name
from petabatch.storage.points_writer import PointsWriter
from petabatch.storage.provenance import Spent, of_run, other_software
from petabatch.waves.checkpoints import Committing, WaveCheckpoints, left_under_way, save_end
from petabatch.waves.compute import Making, Wave
from petabatch.waves.experiment import Experiment
from petabatch.waves.finished import Counts, Finished
from petabatch.waves.index import write_index
from petabatch.waves.progress import PointsProgress
from petabatch.waves.queue import Chunk, Parts, Queue
from petabatch.waves.team import Team

_TOLD = 10
"""Failed points that the log names at most."""
_OFTEN = 10.0
"""Seconds between two indexes of a sweep, if these are a percent of its time at most.

Of a sweep of 200 points that took half a minute, whose index took 60 ms, people saw nothing for 24 s.
"""


class WavesSession:
    """The points of a chunk that are not finished, with the directory that they go to."""

    def __init__(
        self,
        directory: RunDirectory,
        plan: Experiment,
        team: Team,
        chunk: Chunk,
        retry: bool,
    ) -> None:
        """Find out what is finished; raises DamagedError where a file of points is damaged."""
        self.directory, self.plan, self.team, self.comm = directory, plan, team, team.comm
        comm = team.comm
        self._chunk = chunk
        self.alone = chunk == Chunk()
        """Whether this run, on all its ranks, has all points: it then writes `run.h5`."""
        self._files = PointsFiles(directory)
        there = self._there() if comm.rank == 0 else []
        self._points = points = plan.points(chunk.number, chunk.count)
        self.count, self.failed, found = len(points.numbers), 0, None
        if comm.rank == 0:  # before any rank has made further ones
            done = Finished(there, points, plan.base_value)
            left = np.flatnonzero((done.found < 0) | (done.failed & retry))
            found = left[points.taken(left).first]
            self.failed = int((done.failed & (not retry)).sum())
        self.left = points.taken(comm.broadcast(found))
        own = chunk.on(team.leaders)
        self._name = new_name(directory.path, own.number, own.count)
        before = recorded_provenance(directory) or {} if self._indexes else {}
        self.provenance = provenance(directory, plan.loaded, comm, before)
        self._software = self._versions(there)
        saved = None
        if comm.rank == 0:
            saved = left_under_way(directory.path, plan.layout, self._is_same, points, self.left)
        self._saved: list[tuple[Path, np.ndarray]] = comm.broadcast(saved)
        self._spent = Spent(before, comm)
        self._told = set[int]()
        """Numbers of failed points that the log names."""
        self._convergence = Convergence(plan.network)
        self._times: dict[str, float] = {}
        """Seconds of this process by activity, but for those in which it waits for other ranks."""
        self._rank_times: Sequence[Mapping[str, float]] = ()
        """Those of all ranks at the end, on rank 0."""

    @property
    def log(self) -> Path:
        """The log file of this process, where it makes a chunk."""
        return self.directory.path / POINTS / f"{self._name.stem}.txt"

    def run(self, flag: StopFlag, quiet: bool) -> None:
        """Compute the points that are left; raises StoppedEarly on a signal or a time limit."""
        stopped, parts = Stop(self.plan.network.run, flag, self._spent.began), self._parts()
        checkpoints = WaveCheckpoints(
            self.directory.checkpoints / f"{self._name.stem}.h5",
            self.plan.layout,
            self._software,
            self._saved,
            keeps_ends=self.plan.whole and self.alone,
        )
        counter = self.team.counter()
        queue = Queue(parts, counter, self.team.leaders)
        before = self.count - len(self.left.numbers)
        left_of = f"{self.count - before:,} of {self.count:,}" if before else f"{self.count:,}"
        log.info(
            "started in %s: %s %ss to compute, %s",
            self.directory.path,
            left_of,
            self.plan.what,
            self.plan.schedule(parts, self.team),
        )
        writer = PointsWriter(self.directory, self._name, self.plan.layout, self._software)
        index_due = -np.inf
        if self._indexes and len(self.left.numbers):
            drop_checkpoints(self.directory)  # of the points that were finished before
            self.index("running")
        left = False
        with self.team.watch:
            with (
                PointsProgress(before, self.count, self.failed, self.plan.what, quiet) as progress,
                Committing(writer, self.plan.layout.nbytes, checkpoints.remove) as committing,
            ):

                def reached(points: float) -> None:
                    progress.reached(points * self.team.leaders.size)

                making = Making(self.team, stopped, checkpoints, reached)
                try:
                    for wave in self.plan.computed(queue, making):
                        checkpoints.end()
                        self.failed += len(wave.rows.why)
                        self._spend(wave)
                        progress.add(wave, queue.by_others)
                        if committing.add(wave.rows) and self._indexes and time.monotonic() > index_due:
                            took = self.index("running")
                            index_due = time.monotonic() + min(PAUSE * took, max(_OFTEN, PAUSE / 4 * took))
                except Stopped:
                    left = True
                    counter.end()
            unfinished = self.comm.any(left)  # a rank that waits for the last points watches another one
        counter.close()
        if checkpoints.keeps_ends and not unfinished and self.team.leads:
            kept = save_end(self.directory, self.plan.network, checkpoints.ends, self.team.leaders)
            if not kept and len(self.left.numbers):  # else that of before is
                log.info("no checkpoint is kept at the end: not all points were made together")
        self._rank_times = self.comm.gather(self._spent.now(self._times)) or ()  # when all have committed
        if self._indexes:
            self.index("stopped" if unfinished else "done")
        if unfinished:
            raise stopped_early(f"with {self._so_far}", self._again, self.comm.rank)
        self._convergence.report(self.comm)
        log.info("done: %s (%s)", self._made, self._duration_and_rate)

    @property
    def _indexes(self) -> bool:
        return self.alone and self.comm.rank == 0

    @property
    def _so_far(self) -> Counts:
        """How many points of the chunk are committed, by any rank; collective."""
        found = None
        if self.comm.rank == 0:
            found = Finished(self._there(), self._points, self.plan.base_value).counts(self.plan.what)
        counts: Counts = self.comm.broadcast(found)
        return counts

    def _parts(self) -> Parts:
        """Return what is computed together: first the waves that were under way."""
        if not self._saved:
            return self.plan.parts(self.left, self.team)
        place = {row.tobytes(): at for at, row in enumerate(self.left.values)}
        before, waiting = [], np.ones(len(place), bool)
        for _, values in self._saved:
            wave = np.array([place[row.tobytes()] for row in values])
            if waiting[wave].all():  # else they are in another one
                before.append(wave)
                waiting[wave] = False
        others = np.flatnonzero(waiting)
        rest = self.plan.parts(self.left.taken(others), self.team)
        ends = np.cumsum([len(one) for one in before])
        order = np.concatenate([*before, others[rest.order]])
        return Parts(self.left, order, np.concatenate([ends, ends[-1] + rest.ends]))

    def _there(self) -> list[PointsFile]:
        """Return all files of points that there are now."""
        return points_of(self._files, self.directory, self.plan)

    def _versions(self, there: Sequence[PointsFile]) -> dict[str, Any]:
        """Return the versions of what makes points; warn where points were made with others."""
        names = ("petabatch_version", "libraries", "blas", "compiler")
        mine = {name: self.provenance[name] for name in names}
        network = self.plan.network
        tell_of_other_software((one.software for one in there), mine, network, "points")
        return mine

    def _is_same(self, software: Mapping[str, Any]) -> bool:
        return not other_software(software, self._software, portable(self.plan.network))

    def _spend(self, wave: Wave) -> None:
        for path, values in wave.rows.columns.items():
            self._convergence.count(path, values)
        for name, one in wave.times.items():
            self._times[name] = self._times.get(name, 0.0) + one

    @property
    def _again(self) -> str:
        return f"petabatch resume {self.directory.path}" if self.alone else "start the same command again"

    @property
    def _made(self) -> str:
        if self.alone:
            return str(self.directory.run_file)
        return f"chunk {self._chunk.number} of {self._chunk.count} in {self.directory.path}"

    @property
    def _duration_and_rate(self) -> str:
        """How long the points took that were left, and their mean rate on all ranks."""
        slices = len(self.left.numbers) * self.plan.layout.batch
        kernels, steps = self._times.get("kernels", 0.0), slices * self.plan.base.length
        return duration_and_rate(self._spent.seconds, kernels, steps)

    def index(self, status: Status) -> float:
        """Rewrite `run.h5` over all that is committed, by any rank; return the seconds that it took."""
        plan = self.plan
        about = self.provenance | self._spent.record(self._times, self._rank_times)
        finished = Finished(self._there(), plan.points(), plan.base_value)
        for place in np.flatnonzero(finished.failed)[:_TOLD].tolist():
            if (number := int(finished.points.numbers[place])) not in self._told:
                self._told.add(number)
                step, why = finished.steps[place], finished.why(place)
                log.warning("%s %d failed at step %d: %s", plan.what, number, step, why)
        return write_index(self.directory, plan, finished, about, status)


def points_of(files: PointsFiles, directory: RunDirectory, plan: Experiment) -> list[PointsFile]:
    """Return the files of points of a directory; raises DamagedError where one is damaged."""
    try:
        found = files.read()
    except DamagedError as error:
        raise DamagedError(
            f"{error}\n    hint:     `petabatch verify --repair {directory.path}` takes its points out, and "
            "`petabatch resume` makes them again"
        ) from None
    for one in found:
        if one.layout.network != plan.layout.network:
            raise DamagedError(f"{one.path}: this file is damaged: it has points of another network")
    return found


def provenance(
    directory: RunDirectory, loaded: Loaded, comm: Comm, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what is recorded of a run that begins now, or goes on with that `before`; without durations."""
    devices = ["GPU" if loaded.network.run.device == "gpu" else "CPU"]
    return of_run(loaded, comm, devices, directory=directory, before=before)
