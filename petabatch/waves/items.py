"""The slices of a run as items of a pool: one after the other in the slots of an engine, on any rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petabatch.engine.assembly import Assembly
from petabatch.engine.pool import Made, Pool
from petabatch.network.slices import coordinates_of_slices
from petabatch.parallel.comm import Comm
from petabatch.parallel.cores import lane_threads
from petabatch.report.memory import refuse_shortage
from petabatch.spec.load import Loaded
from petabatch.storage.point_rows import Layout
from petabatch.variable import Coordinate, Stream
from petabatch.waves.compute import Making, Recorded, Wave, failed, layout_of
from petabatch.waves.experiment import Experiment, digest
from petabatch.waves.finished import Points
from petabatch.waves.queue import Parts
from petabatch.waves.team import MOST, Team, fitting, least

SLICE = "slice"
"""What stands in segments of points in place of a key path."""


@dataclass(frozen=True)
class Items(Experiment):
    """The slices of a run with `run.pool`; each is a point of one slice."""

    what = SLICE
    assembly: Assembly

    @classmethod
    def of(cls, loaded: Loaded, comm: Comm, threads: int | None) -> Items:
        """Check a network and plan its slices; collective. Raises ParamsError."""
        with loaded.placing():
            assembly = _flushed_once(Assembly.on_any_device(loaded.network, comm, threads))
        return cls(replace(loaded, network=assembly.network), assembly.plan, assembly)

    @property
    def count(self) -> int:
        """Number of slices."""
        return self.network.run.batch

    @property
    def threads(self) -> int:
        """Threads of each rank."""
        return lane_threads(self.network.run, self.assembly.threads)

    @property
    def on_gpu(self) -> bool:
        """Whether slices are advanced on GPUs."""
        return self.network.run.device == "gpu"

    @cached_property
    def size(self) -> int:
        """Slices of a slot: as many as are advanced in one call; on a GPU as many as the host has room for.

        There those that its memory does not hold take turns.
        """
        if self.on_gpu:
            comm = self.assembly.comm
            here = comm.hosts.count(comm.hosts[comm.rank])
            return min(self.count, MOST, fitting(self.base, 1, self.assembly.threads, here))
        return self.base.method.group_size(self.count, self.threads)

    @property
    def slots(self) -> int:
        """Slots of each rank: one for each thread, or a single one on a GPU."""
        return 1 if self.on_gpu else min(self.threads, -(-self.count // self.size))

    @cached_property
    def layout(self) -> Layout:
        """What is kept of each slice."""
        return layout_of(self.base, digest(self.network), (SLICE,), 1)

    def __str__(self) -> str:
        if self.on_gpu:
            return f"{self.count:,} slices, up to {self.size:,} at a time on a GPU, which wait for each other"
        held = self.held(None)
        together = f", on each of {self.slots:,} threads {self.size:,} that wait for each other"
        each = together if self.size > 1 else ", which do not wait for each other"
        return f"{self.count:,} slices, {held:,} at a time{each if held > 1 else ''}"

    def held(self, threads: int | None) -> int:
        """Return how many slices are held at once."""
        return min(self.slots * self.size, self.count)

    def points(self, chunk: int = 1, chunks: int = 1) -> Points:
        """Return the slices of a chunk, from 1: every `chunks`-th one."""
        numbers = np.arange(chunk - 1, self.count, chunks)
        return Points.of(numbers, {SLICE: numbers})

    def coordinates(self, streams: Iterable[Stream], numbers: np.ndarray) -> tuple[Coordinate, ...]:
        """Return the values of slices, and their numbers."""
        return coordinates_of_slices(self.network, streams, numbers)

    def refuse_shortage(self, team: Team) -> None:
        """Raise ResourceError where the slots need more memory than there is; collective."""
        mine = self._on(team)
        with self.loaded.placing():
            refuse_shortage(team.part(self.base), team.comm, mine.held(team.threads), mine.threads)

    def parts(self, points: Points, team: Team) -> Parts:
        """Return slices in parts that fill a slot."""
        every, size = np.arange(len(points.numbers)), least(team.comm, self._on(team).size)
        return Parts.of(points, every, np.array([len(every)]), size, team.leaders.size if self.on_gpu else 1)

    def schedule(self, parts: Parts, team: Team) -> str:
        """Return how many slices are held at a time, on all ranks."""
        held = min(self._on(team).held(team.threads) * team.leaders.size, len(parts.order))
        return f"{held:,} at a time"

    def _on(self, team: Team) -> Items:
        """Return the same with the threads of a team."""
        return replace(self, assembly=replace(self.assembly, threads=team.threads))

    def computed(self, waiting: Iterable[Points], making: Making) -> Iterator[Wave]:
        """Compute slices that wait; see `Experiment`."""
        team = making.team
        mine = self._on(team)
        alone = replace(_flushed_once(mine.assembly.on_device()), comm=team.group, first=team.base)
        with team.watch.preparing():
            engine = alone.engine(range(mine.held(team.threads)))
        spent = dict[str, float]()
        try:
            with team.watch.preparing():
                engine.start()
                pool = Pool(engine, mine.size)
            with team.watch.on(pool):
                for made in pool.run((part.numbers.tolist() for part in waiting), making.stopped):
                    before, spent = spent, engine.times()
                    times = {name: now - before.get(name, 0.0) for name, now in spent.items()}
                    with engine.blocking_io:  # they are written, while slots may wait for slices
                        yield replace(self._wave(made), times=times)
        finally:
            engine.close()

    def _wave(self, made: Made) -> Wave:
        numbers = np.array(made.numbers)
        points = Points.of(numbers, {SLICE: numbers})
        if not made.records:
            (failure,) = made.failures
            assert failure is not None
            return failed(points, self.layout, failure)
        recorded = Recorded(points, self.layout)
        recorded.put(made.records, 0, self.base.length)
        recorded.end({place: one for place, one in enumerate(made.failures) if one is not None})
        return Wave(points, recorded.rows)


def _flushed_once(assembly: Assembly) -> Assembly:
    """Return the assembly of slices that are recorded to their end, and of which some may fail."""
    return assembly.planned(flush=assembly.plan.length, tolerant=True)
