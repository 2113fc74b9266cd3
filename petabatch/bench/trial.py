"""Benchmark trials: a network run by the engine in memory, without files."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from petabatch.engine.engine import Engine
from petabatch.geometry import Patches
from petabatch.network.build import build
from petabatch.network.loop import Loop, find_loop
from petabatch.network.plan import Plan, multiply_adds, schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network

_MOST = 2e11
"""Dense multiply-adds of one measurement, several seconds, beyond which a display is cut short."""


@dataclass(frozen=True)
class Trial:
    """A network cut to a length suitable for measurement."""

    plan: Plan

    @classmethod
    def of(cls, network: Network, steps: int | None = None) -> Trial:
        """Cut a network to `steps` steps, by default one display, or what takes several seconds of it.

        Raises ParamsError when the network is invalid.
        """
        run = network.run
        if steps is None:
            each = max(1, run.batch * multiply_adds(build(network)))
            display = min(run.length, max(run.display, 100))
            steps = min(display, max(10, int(_MOST / each)))
        cut = run.model_copy(update={"steps": steps, "displays": None})
        return cls(schedule(build(network.model_copy(update={"run": cut}))))

    @property
    def steps(self) -> int:
        """Steps of one measurement."""
        return self.plan.length

    @property
    def slice_steps(self) -> int:
        """Steps of one measurement, summed over slices."""
        return self.steps * self.plan.graph.network.run.batch

    @property
    def loop(self) -> Loop | None:
        """The sparse-coding loop that compiled kernels can run, if the network has one."""
        return find_loop(self.plan.graph)

    @property
    def patches(self) -> Patches | None:
        """The geometry of the loop's dictionary."""
        link = self.plan.graph.wirings[self.loop.dictionary].link if self.loop else None
        return link.patches if link else None

    def engine(self, threads: int) -> Engine:
        """Return an engine at step 0."""
        engine = Engine(self.plan, Serial(), threads)
        engine.start()
        return engine

    def seconds(self, threads: int) -> float:
        """Return the seconds of all steps from step 0, with everything but files."""
        return run(self.engine(threads))

    def active(self, engine: Engine) -> float | None:
        """Return the fraction of active units of the code after the engine's last step."""
        if self.loop is None:
            return None
        code = engine.state.arrays[f"layers/{self.loop.code}/A"]
        return float(np.count_nonzero(code[:, engine.step % code.shape[1]]) / code[:, 0].size)


def run(engine: Engine) -> float:
    """Run an engine to its end; return the seconds it took."""
    begin = time.perf_counter()
    for step in engine.run():
        if step % engine.plan.flush == 0:
            engine.flushed()
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
