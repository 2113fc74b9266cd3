"""Sweeps in waves: their points, and how many of them are held at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petabatch.engine.fitting import fitted, to_be_fitted
from petabatch.engine.gpu.choose import choose
from petabatch.engine.stopping import Stopped
from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.network.capacity import FEW, POINT, POINTS
from petabatch.network.numbers import with_values
from petabatch.network.plan import Plan, schedule
from petabatch.network.slices import (
    check_fits,
    check_some_points,
    coordinates,
    first_of_seeds,
    sliced,
    synaptic_paths,
    synaptic_values,
)
from petabatch.parallel.comm import Comm, Serial
from petabatch.parallel.cores import lane_threads
from petabatch.report.memory import shortage
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.spec.sweep import Sweep
from petabatch.start_from import Origin
from petabatch.storage.point_rows import Layout
from petabatch.variable import Coordinate, Stream
from petabatch.waves.checkpoints import ON_DISK
from petabatch.waves.compute import Making, Wave, layout_of, waves, with_room
from petabatch.waves.experiment import Experiment, digest
from petabatch.waves.finished import Points
from petabatch.waves.queue import Parts
from petabatch.waves.team import MOST, SHARE, Team, fitting, least
from petabatch.weight_mode import over_slices


@dataclass(frozen=True)
class Waves(Experiment):
    """A sweep, as it is computed in waves: in a single one where all points fit."""

    what = "point"

    @classmethod
    def of(cls, loaded: Loaded, comm: Comm | None = None, threads: int | None = None) -> Waves:
        """Check a sweep, fit its transforms to its images, and plan its points; collective.

        Raises ParamsError.
        """
        comm, network = comm or Serial(), loaded.network
        with loaded.placing():
            try:
                check_some_points(network)
                base = build(_point(network))
                if problems := check_fits(network):
                    raise ParamsError(problems)
            except ParamsError:
                if network.batch <= FEW:
                    build(network)  # with all its problems
                raise
            if to_be_fitted(network):
                loaded = replace(loaded, network=fitted(network, comm))
                base = build(_point(loaded.network))
            began = 0
            if network.run.start_from is not None:
                origin: Origin = comm.broadcast(Origin.of(network.run, network.batch))
                began = origin.step
                # The latest one of a run may be another one when further points are made.
                run = loaded.network.run.model_copy(update={"start_from": str(origin.head)})
                loaded = replace(loaded, network=loaded.network.model_copy(update={"run": run}))
            plan = schedule(base)
        sweep = cls(loaded, plan, began=began)
        alike = sweep.sweep.wave is None and sweep._alike
        fits = alike and sweep.count <= min(POINTS, sweep._fitting(threads) / SHARE)
        fits = fits and shortage(plan, network.batch, lane_threads(network.run, threads)) is None
        return replace(sweep, whole=bool(comm.broadcast(fits)))

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
        """The key paths that are constant within a wave: of weights and synapses that all slices share."""
        graph = self.base.graph
        shared = [name for name, one in graph.synapses.items() if over_slices(one.mode)]
        drawn = any(over_slices(owner.mode) for owner in graph.weighted.values())
        found = {path for name in shared for path in synaptic_paths(self.network, name)}
        return found | ({"run.seed"} if drawn else set())

    @property
    def _alike(self) -> bool:
        """Whether all points have the same of what slices of a wave have in common."""
        return self._in_common.isdisjoint(self.sweep.columns)

    @cached_property
    def layout(self) -> Layout:
        """What is kept of each point."""
        paths, batch = tuple(self.sweep.columns), self.network.run.batch
        found = layout_of(self.base, digest(self.network), paths, batch, self._alike, self.began)
        return with_room(found, {name: self._most(name) for name in self.base.graph.synapses})

    def _most(self, connection: str) -> int:
        """Return how many synapses a slice of any point has at most."""
        one, ends = self.base.graph.synapses[connection], self.base.graph.wirings[connection].synapses
        assert ends is not None
        values = synaptic_values(self.network, connection)
        same = len(values) == 1 and not one.per_slice and len(first_of_seeds(self.network)) == 1
        if same or not one.drawn or one.per == "network":
            return one.count
        dt = self.network.run.dt
        tables = (with_values(self.network, own).connections[connection] for own in values)
        return max(one.count, *(table.room(ends, dt)[0] for table in tables))

    def __str__(self) -> str:
        waves = "one wave" if self.whole else f"waves of {self.size(None):,}"
        return f"{self.sweep.points:,} points, in {waves}; one that fails stops alone"

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

    def computed(self, waiting: Iterable[Points], making: Making) -> Iterator[Wave]:
        """Compute waves that wait; see `Experiment`."""
        team = making.team
        device = choose(self.network, team.comm)

        def stops() -> bool:
            return team.any(making.stopped())

        for points in team.following(waiting):
            if stops():
                raise Stopped
            yield from waves(self.loaded, points, self.layout, replace(making, stopped=stops, device=device))

    def refuse_shortage(self, team: Team) -> None:
        """A wave has as many points as fit, or is refused when it begins."""

    def parts(self, points: Points, team: Team) -> Parts:
        """Return points in waves, each of one seed and one value of what slices have in common."""
        if self.whole:
            return self.cut(points, -(-len(points.numbers) // team.leaders.size))
        comm = team.comm
        here = comm.hosts.count(comm.hosts[comm.rank])
        size = least(comm, self.size(team.threads, here, team.part(self.base)))
        return self.cut(points, size, team.leaders.size)

    def schedule(self, parts: Parts, team: Team) -> str:
        """Return in how many waves points are computed."""
        kept = "" if self.whole else "; no checkpoint is kept at the end"
        return f"in {len(parts):,} wave{'s' * (len(parts) != 1)}{kept}"

    def size(self, threads: int | None, ranks: int = 1, part: Plan | None = None) -> int:
        """Return how many points are held at once, on each of `ranks` ranks of a host.

        `part` is the plan of what a rank has of a point, by default the whole.
        """
        if self.sweep.wave is not None:
            return self.sweep.wave
        if self.whole:
            return self.count
        fit = self._fitting(threads, ranks, part)
        return max(1, min(fit, MOST // self.network.run.batch))

    def _fitting(self, threads: int | None, ranks: int = 1, part: Plan | None = None) -> int:
        """Return how many points a share of the memory holds, with what they record unless it is on disk."""
        plan, batch = replace(part or self.base, tolerant=True), self.network.run.batch
        beside = fitting(plan, batch, threads, ranks, POINT)
        recorded = self.layout.nbytes
        return (
            beside if beside * recorded > ON_DISK else fitting(plan, batch, threads, ranks, POINT + recorded)
        )

    def cut(self, points: Points, size: int, ranks: int = 1) -> Parts:
        """Return points in waves of at most `size`."""
        order, ends = np.arange(len(points.numbers)), np.array([len(points.numbers)])
        if common := [number for number, path in enumerate(points.paths) if path in self._in_common]:
            values = points.values[:, common]
            order = np.lexsort(values.T[::-1])
            changes = np.diff(values[order], axis=0).any(1)
            ends = np.append(np.flatnonzero(changes) + 1, ends)
        return Parts.of(points, order, ends, size, ranks)


def _point(network: Network) -> Network:
    """Return the network of the first point, which a team has alone."""
    point = sliced(network, 0)
    return point.model_copy(update={"parallel": point.parallel.model_copy(update={"batch": None})})
