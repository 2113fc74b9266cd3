"""The plan of a sweep in waves: its points, what is kept of each, and how many are held at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petabatch.errors import ParamsError, Problem
from petabatch.network.build import build
from petabatch.network.capacity import POINT, POINTS
from petabatch.network.numbers import value_of
from petabatch.network.plan import Plan, schedule
from petabatch.network.slices import check_some_points, sliced
from petabatch.parallel.comm import Comm, Serial
from petabatch.parallel.consistency import fingerprint
from petabatch.parallel.cores import lane_threads
from petabatch.parallel.host_memory import host_limit, used
from petabatch.report.memory import needed
from petabatch.spec.load import Loaded, resolved
from petabatch.spec.network import Network
from petabatch.spec.sweep import Sweep
from petabatch.storage.ledger import Layout
from petabatch.waves.compute import layout_of
from petabatch.waves.finished import Points

_MOST = 2048
"""Slices of a wave at most: more would lose more to a kill, and be no faster."""
_SHARE = 0.5
"""Part of the memory of a host that waves take."""
_APART = {
    "run": ("threads", "wall_limit", "stuck_after", "verify"),
    "output": ("flush",),
    "": ("title", "sweep", "checkpoint", "parallel"),
}
"""Keys by table on which no number of a point depends."""


@dataclass(frozen=True)
class Waves:
    """A sweep, as it is computed in waves."""

    loaded: Loaded
    base: Plan
    """The plan of the first point."""

    @classmethod
    def of(cls, loaded: Loaded) -> Waves:
        """Check a sweep and plan its points; raises ParamsError."""
        with loaded.placing():
            check_some_points(loaded.network)
            base = schedule(build(sliced(loaded.network, 0)))
        return cls(loaded, base)

    @property
    def network(self) -> Network:
        """The network."""
        return self.loaded.network

    @property
    def sweep(self) -> Sweep:
        """The sweep of the network."""
        assert self.network.sweep is not None
        return self.network.sweep

    @cached_property
    def layout(self) -> Layout:
        """What is kept of each point."""
        return layout_of(self.base, digest(self.network), tuple(self.sweep.columns))

    def points(self, chunk: int = 1, chunks: int = 1) -> Points:
        """Return the points of a chunk, from 1: every `chunks`-th one."""
        numbers = np.arange(chunk - 1, self.sweep.points, chunks)
        return Points.of(numbers, self.sweep.at(numbers))

    def base_value(self, path: str) -> float | None:
        """Return the number of a key in points that do not sweep it."""
        return value_of(self.network, path)

    def size(self, threads: int | None, ranks: int = 1) -> int:
        """Return how many points are held at once, on each of `ranks` ranks of a host."""
        if self.network.run.start_from is not None:
            return 1  # the slices of that run are those of a point
        if self.sweep.wave is not None:
            return self.sweep.wave
        each = self.network.run.batch
        return max(1, min(self._fitting(threads, ranks), _MOST // each))

    def fits(self, threads: int | None) -> bool:
        """Return whether all points are planned and held at once."""
        return self.sweep.points <= min(POINTS, self._fitting(threads, 1) / _SHARE)

    def _fitting(self, threads: int | None, ranks: int) -> int:
        """Return how many points the share of the memory holds."""
        run = self.network.run
        plan = replace(self.base, flush=self.base.length)
        one, two = (needed(plan, n * run.batch, lane_threads(run, threads)) for n in (1, 2))
        there = _SHARE * (host_limit().nbytes - used()[0]) / ranks - one
        return 1 + max(0, int(there / (two - one + POINT)))

    def cut(self, points: Points, size: int) -> Iterator[Points]:
        """Yield waves of points, of one seed each where it draws what slices have in common."""
        parts = [points]
        if "run.seed" in points.paths and self._drawn_in_common:
            seeds = points.values[:, points.paths.index("run.seed")]
            order = np.argsort(seeds, kind="stable")
            ends = np.flatnonzero(np.diff(seeds[order])) + 1
            parts = [points.taken(which) for which in np.split(order, ends)]
        for part in parts:
            for first in range(0, len(part.numbers), size):
                yield part.taken(np.arange(first, min(first + size, len(part.numbers))))

    @property
    def _drawn_in_common(self) -> bool:
        graph = self.base.graph
        owners = graph.weighted.values()
        return bool(graph.synapses) or any(o.weights(graph.network.layers).per == "network" for o in owners)


def digest(network: Network) -> str:
    """Return what identifies a network without its points."""
    table = resolved(network)
    for name, keys in _APART.items():
        for key in keys:
            (table[name] if name else table).pop(key, None)
    return fingerprint(json.dumps(table, sort_keys=True))


def in_waves(
    loaded: Loaded, comm: Comm | None = None, threads: int | None = None, asked: bool = False
) -> Waves | None:
    """Return the plan of a sweep in waves: of one that says so, or that does not fit; collective.

    Where it is `asked` for, raises ParamsError without a sweep.
    """
    network, comm = loaded.network, comm or Serial()
    if network.sweep is None or network.run.device == "gpu":
        if not asked:
            return None
        problem = (
            Problem("sweep", "this run has no sweep", expected="a table [sweep], or --sweep KEY=VALUES")
            if network.sweep is None
            else Problem("run.device", "sweeps are available on the CPU", found="gpu", expected="cpu")
        )
        raise loaded.placed(ParamsError([problem]))
    try:
        plan = Waves.of(loaded)
    except ParamsError:
        if asked or network.sweep.wave is not None:
            raise
        return None  # the whole network is checked, with all its problems
    fits = comm.broadcast(plan.fits(threads) if comm.rank == 0 else None)
    return plan if asked or network.sweep.wave is not None or not fits else None
