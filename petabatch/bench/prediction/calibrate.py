"""Measurement of a calibration: some displays of some slices, in memory, on one rank."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from petabatch.bench.machine import machine
from petabatch.bench.prediction.calibration import Calibration, identify
from petabatch.bench.prediction.clocks import IN_LANE, Clocks, busy, wall
from petabatch.bench.prediction.part_times import part_times
from petabatch.bench.prediction.sample import batch_of, sample_size, whole
from petabatch.bench.prediction.traffic import counts
from petabatch.clock import Clock
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive, flush
from petabatch.engine.engine import Engine
from petabatch.logs import log
from petabatch.parallel.comm import Serial
from petabatch.parallel.reduce import ExactSum
from petabatch.spec.network import Network
from petabatch.variable import Array

_SECONDS = 6.0
"""Seconds after which no further display begins."""
_MOST = 4e11
"""Dense multiply-adds of a display; for more, fewer slices are measured, and then fewer steps."""


def calibrate(
    network: Network, title: str, threads: int, steps: int | None = None, displays: int = 10
) -> Calibration:
    """Measure at most `displays` displays of a network, after the first; `steps` cuts them short.

    Raises ParamsError when the network is invalid.
    """
    assembly = replace(_sample(network, steps, displays), threads=threads)
    plan, slices = assembly.plan, assembly.network.batch
    window = _measure(assembly.engine())
    learned, recorded = counts(plan, window.first, window.last)
    sums = _sums(window.engine, slices), _sums(window.engine, 1)
    each = max(0.0, (sums[0] - sums[1]) / max(1, slices - 1))
    update = window.update / max(1, window.updates)
    return Calibration(
        network=identify(network),
        title=title,
        threads=threads,
        slices=window.steps.tolist(),
        image=window.parts["input"] / slices / len(window.steps),
        learning=window.parts["learning"] / slices / max(1, learned),
        recording=window.parts["probes and output"] / slices / max(1, recorded),
        update=max(0.0, update - slices * each),
        update_slice=min(each, update / slices),
        event=window.event,
        addition=_addition(),
        reduction=_reduction(),
        part_times=part_times(network, threads),
        machine=machine(),
    )


def _sample(network: Network, steps: int | None, displays: int) -> Assembly:
    """Return the assembly of the first slices for some displays, one more than are measured."""
    display = network.run.display
    slices, cut = sample_size(network, _MOST)
    cut = min(display, steps or cut)
    if cut < display:
        log.info("note: %d of the %d steps of a display are measured", cut, display)
    of_run = {
        "batch": batch_of(network, slices),
        "display": cut,
        "displays": None,
        "steps": Clock(cut).length(1 + displays),
    }
    run = network.run.model_copy(update=of_run)
    assembly = Assembly.of(whole(network).model_copy(update={"run": run}))
    return assembly.planned(stops=tuple(range(cut, run.length, cut)))


@dataclass
class _Window:
    """What was measured after the first display."""

    engine: Engine
    first: int
    last: int
    steps: np.ndarray
    """Seconds of a step, `[display, slice]`."""
    parts: dict[str, float]
    """Seconds of what else lanes do, summed over slices."""
    update: float
    """Seconds of all updates."""
    updates: int
    event: float
    """Seconds of a meeting in which no lane and no update is at work, of the shortest."""


def _measure(engine: Engine) -> _Window:
    """Run displays until they have taken long enough, or all of them; the first is a warm-up."""
    engine.start()
    clock = engine.plan.graph.network.run.clock
    display = clock.display
    looks: list[Clocks] = []
    rests, updates = list[float](), 0
    since = before = 0.0
    advance = drive(engine, flush(engine))
    for step in advance:
        now, worked = wall(engine), busy(engine)
        if looks:
            rests.append(now - since - (worked - before))
            updates += engine.updates.due(step)
        if clock.ends(step):
            looks.append(Clocks.at(engine))
            if looks[-1].wall - looks[0].wall > _SECONDS:
                break
        since, before = wall(engine), worked
    advance.close()
    first, last = looks[0], looks[-1]
    spent = np.array([after.spent - before.spent for before, after in pairwise(looks)])
    parts = {name: last.parts[name] - first.parts[name] for name in IN_LANE}
    others = sum(parts.values()) / max(spent.sum(), 1e-12)
    return _Window(
        engine, display, display * len(looks), spent * max(0.0, 1 - others) / display, parts,
        last.update - first.update, updates, max(0.0, min(rests)),
    )  # fmt: skip


def _sums(engine: Engine, slices: int) -> float:
    """Return the seconds of the exact sums of all updates over some slices."""
    batch, seconds = engine.plan.graph.network.batch, 0.0
    for group in engine.plan.summed_updates:
        summed = engine.plan.graph.summed
        keys = [f"connections/{one.name}/{kind}" for one in group for kind in summed[one.name]]
        products = engine.updates.products
        parts = {key: products[key][:slices] for key in keys}
        seconds += _typical(partial(_sum, parts, batch))
    return seconds


def _sum(parts: Mapping[str, Array], batch: int) -> None:
    ExactSum(parts, Serial(), batch, 0).wait()


def _addition() -> float:
    """Return the seconds of adding one byte of 64-bit integers."""
    numbers = np.ones(1 << 15, np.int64)
    return _typical(lambda: np.add(numbers, 1, out=numbers)) / numbers.nbytes


def _typical(call: Callable[[], object], seconds: float = 0.05) -> float:
    """Return the median seconds of several calls; the first is a warm-up."""
    call()
    found, end = list[float](), time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < 3:
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return float(np.median(found))


_START = """
import time
import numpy as np
from petabatch.parallel.mpi import MPI

ranks, one = MPI(), np.zeros(1)
for turn in range(500):
    begin = begin if turn > 100 else time.perf_counter()
    ranks.start_max(one).wait()
print((time.perf_counter() - begin) / 400)
"""


def _reduction() -> float | None:
    """Return the seconds until MPI has started a reduction, from a process of its own; None without MPI."""
    command = [sys.executable, "-c", _START]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except subprocess.SubprocessError as error:
        output = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1]
        log.warning("the start of an MPI reduction was not measured, and counts as nothing: %s", output)
        return None
    return float(done.stdout)
