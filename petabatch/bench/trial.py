"""Benchmark trials: a network run by the engine in memory, without files."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive, flush
from petabatch.engine.engine import Engine
from petabatch.geometry import Patches
from petabatch.network.build import build
from petabatch.network.loop import Loop, find_loop
from petabatch.network.plan import Plan, multiply_adds
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.network import Network

_MOST = 2e11
"""Dense multiply-adds of one measurement, several seconds, beyond which a display is cut short."""


@dataclass(frozen=True)
class Trial:
    """A network cut to a length suitable for measurement."""

    assembly: Assembly

    @classmethod
    def of(cls, network: Network, steps: int | None = None) -> Trial:
        """Cut a network to `steps` steps, by default one display, or what takes several seconds of it.

        Raises ParamsError when the network is invalid, ResourceError when it is to run on a GPU and there is
        none.
        """
        run = network.run
        if steps is None:
            each = max(1, network.batch * multiply_adds(build(network)))
            display = min(run.length, max(run.display, 100))
            steps = min(display, max(10, int(_MOST / each)))
        cut = run.model_copy(update={"steps": steps, "displays": None})
        return cls(Assembly.of(network.model_copy(update={"run": cut})))

    @property
    def plan(self) -> Plan:
        """The plan of one measurement."""
        return self.assembly.plan

    @property
    def steps(self) -> int:
        """Steps of one measurement."""
        return self.plan.length

    @property
    def slice_steps(self) -> int:
        """Steps of one measurement, summed over slices."""
        return self.steps * self.plan.graph.network.batch

    @property
    def patches(self) -> Patches | None:
        """The geometry of the sparse-coding loop that is the whole network, None where it is not one."""
        return None if self._loop is None else self._loop.patches

    @property
    def products(self) -> list[tuple[Patches, bool]]:
        """Patches of each connection that delivers through shared ones, and whether it scatters them.

        Nothing if a connection has others, whose products are not dense matrices.
        """
        edges = [edge for edges in self.plan.graph.edges.values() for edge in edges]
        links = [edge.wiring.link for edge in edges if edge.wiring.link is not None and edge.wiring.weights]
        if not all(link.patches.shared for link in links):
            return []
        return [(link.patches, link.scatter) for link in links]

    @cached_property
    def _loop(self) -> Loop | None:
        try:
            return find_loop(self.plan.graph)
        except NotSuitable:
            return None

    def engine(self, threads: int) -> Engine:
        """Return an engine at step 0."""
        engine = replace(self.assembly, threads=threads).engine()
        engine.start()
        return engine

    def seconds(self, threads: int) -> float:
        """Return the seconds of all steps from step 0, with everything but files."""
        return run(self.engine(threads))

    def active(self, engine: Engine) -> float | None:
        """Return the fraction of active units of the code after the engine's last step."""
        if self._loop is None:
            return None
        code = engine.state.arrays[f"layers/{self._loop.code}/A"]
        return float(np.count_nonzero(code[:, engine.step % code.shape[1]]) / code[:, 0].size)


def run(engine: Engine) -> float:
    """Run an engine to its end; return the seconds it took."""
    begin = time.perf_counter()
    for _ in drive(engine, flush(engine)):
        pass
    return time.perf_counter() - begin


def interleaved(jobs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure in the order A B A B ..., so that other load on the machine affects all jobs alike."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            found[name].append(job())
    return found


def ratio(mine: list[float], theirs: list[float]) -> float:
    """Return the median over rounds of mine / theirs."""
    return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
