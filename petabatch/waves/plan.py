"""Sweeps in waves: their points, and how many of them are held at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petabatch.engine.gpu.choose import choose
from petabatch.engine.stopping import Stopped
from petabatch.network.build import build
from petabatch.network.capacity import POINT, POINTS
from petabatch.network.plan import Plan, schedule
from petabatch.network.slices import check_some_points, coordinates, sliced
from petabatch.spec.load import Loaded
from petabatch.spec.sweep import Sweep
from petabatch.storage.points import Layout
from petabatch.variable import Coordinate, Stream
from petabatch.waves.checkpoints import WaveCheckpoints
from petabatch.waves.compute import Wave, layout_of, waves
from petabatch.waves.experiment import Experiment, digest
from petabatch.waves.finished import Points
from petabatch.waves.fitting import MOST, SHARE, fitting, least
from petabatch.waves.in_common import paths_in_common
from petabatch.waves.queue import Parts
from petabatch.waves.team import Team


@dataclass(frozen=True)
class Waves(Experiment):
    """A sweep, as it is computed in waves."""

    what = "point"

    @classmethod
    def of(cls, loaded: Loaded) -> Waves:
        """Check a sweep and plan its points; raises ParamsError."""
        with loaded.placing():
            check_some_points(loaded.network)
            base = schedule(build(sliced(loaded.network, 0)))
        return cls(loaded, base)

    @property
    def sweep(self) -> Sweep:
        """The sweep of the network."""
        assert self.network.sweep is not None
        return self.network.sweep

    @property
    def count(self) -> int:
        """Number of points."""
        return self.sweep.points

    @cached_property
    def _in_common(self) -> set[str]:
        return paths_in_common(self.base.graph, self.network)

    @cached_property
    def layout(self) -> Layout:
        """What is kept of each point."""
        paths, batch = tuple(self.sweep.columns), self.network.run.batch
        same = self._in_common.isdisjoint(paths)
        return layout_of(self.base, digest(self.network), paths, batch, same)

    def __str__(self) -> str:
        return f"{self.sweep.points:,} points, in waves of {self.size(None):,}"

    def held(self, threads: int | None) -> int:
        """Return how many slices are held at once."""
        return min(self.size(threads), self.count) * self.network.run.batch

    def points(self, chunk: int = 1, chunks: int = 1) -> Points:
        """Return the points of a chunk, from 1: every `chunks`-th one."""
        numbers = np.arange(chunk - 1, self.sweep.points, chunks)
        return Points.of(numbers, self.sweep.at(numbers))

    def coordinates(self, streams: Iterable[Stream], numbers: np.ndarray) -> tuple[Coordinate, ...]:
        """Return the values of points, and the numbers of points and slices."""
        return coordinates(self.network, streams, numbers)

    def computed(
        self,
        waiting: Iterable[Points],
        team: Team,
        stopped: Callable[[], bool],
        checkpoints: WaveCheckpoints | None = None,
    ) -> Iterator[Wave]:
        """Compute waves that wait; see `Experiment`."""
        device = choose(self.network, team.comm)

        def stops() -> bool:
            return team.any(stopped())

        for points in team.following(waiting):
            if stops():
                raise Stopped
            yield from waves(self.loaded, points, self.layout, team, device, stops, checkpoints)

    def refuse_shortage(self, team: Team) -> None:
        """A wave has as many points as fit, or is refused when it begins."""

    def parts(self, points: Points, team: Team) -> Parts:
        """Return points in waves, each of one seed and one value of what slices have in common."""
        comm = team.comm
        here = comm.hosts.count(comm.hosts[comm.rank])
        size = least(comm, self.size(team.threads, here, team.part(self.base)))
        return self.cut(points, size, team.leaders.size)

    def schedule(self, parts: Parts, team: Team) -> str:
        """Return in how many waves points are computed."""
        return f"in {len(parts):,} wave{'s' * (len(parts) != 1)}"

    def size(self, threads: int | None, ranks: int = 1, part: Plan | None = None) -> int:
        """Return how many points are held at once, on each of `ranks` ranks of a host.

        `part` is the plan of what a rank has of a point, by default the whole.
        """
        if self.network.run.start_from is not None:
            return 1  # the slices of that run are those of a point
        if self.sweep.wave is not None:
            return self.sweep.wave
        each = self.network.run.batch
        return max(1, min(self._fitting(threads, ranks, part), MOST // each))

    def fits(self, threads: int | None) -> bool:
        """Return whether all points are planned and held at once."""
        return self.sweep.points <= min(POINTS, self._fitting(threads, 1) / SHARE)

    def _fitting(self, threads: int | None, ranks: int, part: Plan | None = None) -> int:
        """Return how many points the share of the memory holds."""
        return fitting(part or self.base, self.network.run.batch, threads, ranks, POINT)

    def cut(self, points: Points, size: int, ranks: int = 1) -> Parts:
        """Return points in waves of at most `size`."""
        order, ends = np.arange(len(points.numbers)), np.array([len(points.numbers)])
        if common := [number for number, path in enumerate(points.paths) if path in self._in_common]:
            values = points.values[:, common]
            order = np.lexsort(values.T[::-1])
            changes = np.diff(values[order], axis=0).any(1)
            ends = np.append(np.flatnonzero(changes) + 1, ends)
        return Parts.of(points, order, ends, size, ranks)
