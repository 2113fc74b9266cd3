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
from petabatch.bench.prediction.part import LonePart
from petabatch.bench.prediction.traffic import counts, obstacle
from petabatch.engine.assembly import Assembly
from petabatch.engine.engine import Engine
from petabatch.engine.weight_update import SUMMED
from petabatch.logs import log
from petabatch.network.build import build
from petabatch.network.evaluation import fixed
from petabatch.network.plan import multiply_adds, schedule
from petabatch.network.possible_parts import AXES, Axis, divisors, sizes, with_parts
from petabatch.parallel.comm import Serial
from petabatch.parallel.reduce import ExactSum
from petabatch.spec.network import Network, Parallel
from petabatch.variable import Array

_SLICES, _SECONDS = 16, 6.0
"""The most slices; seconds after which no further display begins."""
_MOST = 4e11
"""Dense multiply-adds of a display; for more, fewer slices are measured, and then fewer steps."""
_WARM, _MOST_PART = 2, 1e11
"""Steps of a part before those that are measured, if these are fewer than a display; dense multiply-adds of
the whole in those that are measured."""
_MOST_WAYS = 32
"""Ranks that share a slice when that is measured, at most, unless it divides into no fewer."""
_IN_LANE = ("input", "learning", "probes and output")


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
        parts=_parts(network, threads),
        machine=machine(),
    )


def _sample(network: Network, steps: int | None, displays: int) -> Assembly:
    """Return the assembly of the first slices for some displays, one more than are measured."""
    whole = network.model_copy(update={"parallel": Parallel(), "evaluate": None})
    each, display = max(1, multiply_adds(build(whole))), network.run.display
    slices = _slices(network, max(1, int(_MOST / (each * display))))
    cut = min(display, steps or max(10, int(_MOST / (each * slices))))
    if cut < display:
        log.info("note: %d of the %d steps of a display are measured", cut, display)
    of_run = {
        "batch": slices // _points(network),
        "display": cut,
        "displays": None,
        "steps": (1 + displays) * cut,
    }
    run = network.run.model_copy(update=of_run)
    assembly = Assembly.of(whole.model_copy(update={"run": run}))
    return assembly.planned(stops=tuple(range(cut, run.length, cut)))


def _slices(network: Network, most: int = _SLICES) -> int:
    """Return how many slices are measured: all where each has its own values, else a few."""
    if network.slices or network.sweep is not None:
        return network.batch
    return min(network.batch, _SLICES, most)


def _points(network: Network) -> int:
    return network.batch // network.run.batch


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
    display = engine.plan.graph.network.run.display
    looks: list[_Look] = []
    rests, updates = list[float](), 0
    since = before = 0.0
    advance = engine.run()
    for step in advance:
        now, busy = _wall(engine), _busy(engine)
        if looks:
            rests.append(now - since - (busy - before))
            updates += engine.updates.due(step)
        if step % engine.plan.flush == 0:
            engine.flushed()
        if step % display == 0:
            looks.append(_Look.at(engine))
            if looks[-1].wall - looks[0].wall > _SECONDS:
                break
        since, before = _wall(engine), busy
    advance.close()
    first, last = looks[0], looks[-1]
    spent = np.array([after.spent - before.spent for before, after in pairwise(looks)])
    parts = {name: last.parts[name] - first.parts[name] for name in _IN_LANE}
    others = sum(parts.values()) / max(spent.sum(), 1e-12)
    return _Window(
        engine, display, display * len(looks), spent * max(0.0, 1 - others) / display, parts,
        last.update - first.update, updates, max(0.0, min(rests)),
    )  # fmt: skip


def _wall(engine: Engine) -> float:
    return time.monotonic() - engine.warm_up.seconds


def _busy(engine: Engine) -> float:
    """Return the seconds in which lanes were at work, or an update."""
    elapsed = np.array([group.all[0].clock.elapsed.get("lane", 0.0) for group in engine.dispatch.groups])
    lanes = max(elapsed.sum() / engine.dispatch.workers, elapsed.max())
    return float(lanes) + engine.clock.elapsed.get("learning", 0.0)


@dataclass
class _Look:
    """The clocks of an engine at the end of a display.

    Processor time where it is the same as time on an idle machine, since other programs do not count in it.
    """

    wall: float
    spent: np.ndarray
    """Seconds of each slice."""
    parts: dict[str, float]
    update: float

    @classmethod
    def at(cls, engine: Engine) -> _Look:
        """Read them."""
        spent = np.zeros(engine.state.hi - engine.state.lo)
        shared = engine.threads > len(engine.dispatch.groups)  # by threads whose time is not counted
        for group in engine.dispatch.groups:
            clock = group.all[0].clock
            spent[group.lanes] = (clock.elapsed if shared else clock.spent).get("lane", 0.0) / len(group.all)
        clocks = [lane.clock for lane in engine.lanes]
        parts = {name: sum(clock.spent.get(name, 0.0) for clock in clocks) for name in _IN_LANE}
        return cls(_wall(engine), spent, parts, engine.clock.spent.get("learning", 0.0))


def _sums(engine: Engine, slices: int) -> float:
    """Return the seconds of the exact sums of all updates over some slices."""
    batch, seconds = engine.plan.graph.network.batch, 0.0
    for group in engine.plan.summed_updates:
        keys = [f"connections/{one.name}/{kind}" for one in group for kind in SUMMED]
        products = engine.updates.products
        parts = {key: products[key][:slices] for key in keys if key in products}
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


def _parts(network: Network, threads: int) -> dict[Axis, dict[int, float]]:
    """Return what the steps of a part of a slice take of those of the whole, by axis and number of parts."""
    ways = {axis: _ways(network, axis) for axis in AXES}
    if not any(ways.values()):
        return {}
    whole = _steps(network, threads).sum()
    return {
        axis: {parts: _steps_of_parts(network, axis, parts, threads) / whole for parts in some}
        for axis, some in ways.items()
        if some
    }


def _ways(network: Network, axis: Axis) -> list[int]:
    """Return the fewest and the most ranks for whose parts of a slice steps are measured."""
    ways = [parts for parts in _divisors(network, axis) if not obstacle(network, axis, parts)]
    few = [each for each in ways if each <= _MOST_WAYS] or ways[:1]
    return sorted({*few[:1], *few[-1:]})


def _divisors(network: Network, axis: Axis) -> list[int]:
    """Return the numbers of ranks that split every layer that can be split."""
    return divisors(sizes(network, axis).values())


def _steps_of_parts(network: Network, axis: Axis, parts: int, threads: int) -> float:
    """Return the seconds of the steps of a part; of each slice those of the slower of two.

    Ranks wait for each other in each step of a slice, in which another one has more active units than in the
    next slice.
    """
    some = (_steps(with_parts(network, axis, parts), threads, part) for part in (0, parts - 1))
    return float(np.maximum(*some).sum())


def _steps(network: Network, threads: int, part: int = 0) -> np.ndarray:
    """Return the seconds of the second display of each of some slices of a network, or of a rank's part.

    Of large networks those of the first steps. Without images, learning and recordings. Ratios of these are
    the same for all slices.
    """
    whole = network.model_copy(update={"parallel": Parallel(), "evaluate": None})
    each, display = max(1, multiply_adds(build(whole))), network.run.display
    slices = _slices(network, max(1, int(_MOST_PART / (each * display))))
    cut = min(display, max(10, int(_MOST_PART / (each * slices))))
    warm = display if cut == display else _WARM  # the first display begins with nothing active
    last = warm + cut
    of_run = {"displays": None, "steps": last, "batch": slices // _points(network)}
    changed = {"run": network.run.model_copy(update=of_run), "evaluate": None, "connections": fixed(network)}
    plan = schedule(build(network.model_copy(update=changed)))
    engine = LonePart(plan, Serial(), threads, part=part).planned(stops=(warm, last)).engine()
    engine.start()
    looks = list[_Look]()
    for step in engine.run():
        engine.recorder.take(step)
        if step % engine.plan.flush == 0:
            engine.flushed()
        if step in (warm, last):
            looks.append(_Look.at(engine))
    first, second = looks
    spent: np.ndarray = second.spent - first.spent
    others = sum(second.parts[name] - first.parts[name] for name in _IN_LANE)
    return np.asarray(np.maximum(1e-9, spent - others / len(spent)))
