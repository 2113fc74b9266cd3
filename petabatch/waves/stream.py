"""`petabatch.sweep`: the points of a sweep in memory, each as soon as it is computed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from petabatch.arguments import checked, whole_number
from petabatch.engine.stopping import Stop, Stopped, stopped_early
from petabatch.errors import MISSING, ArgumentError
from petabatch.logs import PATIENCE, shown
from petabatch.parallel.comm import Serial
from petabatch.parallel.cores import lane_threads
from petabatch.params import given
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.spec.sweep import Sweep
from petabatch.storage.point_rows import POINT, Rows
from petabatch.waves.compute import Making, Wave
from petabatch.waves.finished import Counts
from petabatch.waves.plan import Waves
from petabatch.waves.progress import PointsProgress
from petabatch.waves.team import Team

Recorded = Mapping[str, np.ndarray]
_SECONDS = 1.0
"""Of a wave, unless what it takes beside its steps, such as drawing synapses, would be much of it."""
_BESIDE, _GROWTH = 10, 8
"""Time of a wave as a multiple of that; the next wave is at most so many times as large."""


@dataclass(frozen=True, eq=False)
class Point:
    """A point of a sweep, with what it recorded."""

    number: int
    """Its place among the points, from 0."""
    values: Mapping[str, float]
    """By key path."""
    recorded: Recorded = field(repr=False)
    """By path as in the run file, `[times, batch, ...]`; NaN from where a point failed. Of spikes recorded as
    events their columns, with `step`."""
    observed: Any = None
    """What `observe` returned; None for a point that failed."""
    failed: str = ""
    """Why it failed, empty if it did not."""


@checked("network")
def sweep(
    network: Loaded | Network | str | os.PathLike[str],
    points: Mapping[str, Any] | Sweep | None = None,
    observe: Callable[[Recorded], Any] | None = None,
    *,
    wave: int | None = None,
    threads: int | None = None,
    quiet: bool = False,
) -> Iterator[Point]:
    """Compute points of a network, and yield each as soon as its wave is done, in their order.

    Nothing is written. A point that becomes NaN or raises an error is yielded as `failed`.

    Parameters
    ----------
    network
        A params file, by its path or loaded, or a network built in Python.
    points
        Arrays by key path, with one value for each point, or a `Sweep`; by default those of the
        network's `[sweep]`.
    observe
        A function that is called with what `[output]` and probes recorded of each point.
    wave
        How many points are made at once, by default few at first, then as many as take a second, and at
        most what half of the memory holds; a point has the same bits in waves of any size.
    threads
        Number of threads, by default `run.threads`, or the cores that the process may use.
    quiet
        Whether no progress is reported; nothing is of sweeps of a second or two.

    Returns
    -------
    Iterator[Point]
        The points.

    Raises
    ------
    ParamsError
        If the network or its points are invalid.
    ArgumentError
        If they are none.
    StoppedEarly
        When `run.wall_limit` is reached; the points before have been yielded.

    Examples
    --------
    >>> file = petabatch.load("params/natural_images.toml", ["connections.dictionary.mode=shared"])
    >>> for point in petabatch.sweep(file, {"layers.V1.threshold": [0.3, 0.5]}):
    ...     print(point.values, point.recorded["probes/energy/total"].ndim)
    {'layers.V1.threshold': 0.3} 2
    {'layers.V1.threshold': 0.5} 2
    """
    loaded = given(network)
    if points is not None:
        if not isinstance(points, Sweep | Mapping):
            expected = "arrays by key path, or a Sweep"
            raise ArgumentError("points", "these are no points of a sweep", points, expected)
        chosen = points if isinstance(points, Sweep) else Sweep(table=dict(points))
        loaded = replace(loaded, network=loaded.network.model_copy(update={"sweep": chosen}))
    if loaded.network.sweep is None:
        raise ArgumentError("points", "the network has no sweep", MISSING, "arrays by key path, or a Sweep")
    plan = replace(Waves.of(loaded), whole=False)
    run = loaded.network.run
    if wave is not None:
        sizes = _Sizes(whole_number("wave", wave, 1))
    else:
        sizes = _Sizes(plan.size(threads), lane_threads(run, threads) if plan.sweep.wave is None else None)
    return _computed(plan, sizes, Team.of(Serial(), plan.base, threads), observe, quiet)


class _Sizes:
    """How many points a wave has: few at first, so that some come soon, then as many as take a second."""

    def __init__(self, most: int, least: int | None = None) -> None:
        """Give waves `most` points, or begin with `least`."""
        self._most, self.now = most, most if least is None else min(most, least)

    def note(self, seconds: float, beside: float) -> None:
        """Take in how long a wave took, and how much of it `beside` its steps, which any wave takes."""
        each = max(seconds - beside, 1e-6) / self.now
        wanted = int(max(_SECONDS, _BESIDE * beside) / each)
        self.now = min(max(self.now, wanted), _GROWTH * self.now, self._most)


def _computed(
    plan: Waves, sizes: _Sizes, team: Team, observe: Callable[[Recorded], Any] | None, quiet: bool
) -> Iterator[Point]:
    points, first = plan.points(), 0
    count, making, made, failed = len(points.numbers), Making(team, Stop(plan.network.run)), 0, 0
    with shown(quiet), PointsProgress(0, count, 0, plan.what, quiet, PATIENCE) as progress:
        while first < count:
            size, began = sizes.now, time.monotonic()
            together = points.taken(np.arange(first, min(first + size, count)))
            try:
                for wave in plan.computed(plan.cut(together, size), making):
                    if len(wave.points.numbers) == size:
                        beside = wave.times.get("planning", 0.0) + wave.times.get("kernels", 0.0)
                        sizes.note(time.monotonic() - began, beside)
                    progress.add(wave, 0)
                    for point in _points(wave, observe):
                        made, failed = made + 1, failed + bool(point.failed)
                        yield point
            except Stopped:
                reached = Counts(made - failed, failed, count, plan.what)
                again = "raise run.wall_limit, or sweep the points that are left"
                raise stopped_early(f"with {reached}", again) from None
            first += size


def _points(wave: Wave, observe: Callable[[Recorded], Any] | None) -> Iterator[Point]:
    for row, number in enumerate(wave.points.numbers.tolist()):
        values = dict(zip(wave.points.paths, wave.points.values[row].tolist(), strict=True))
        recorded = {path: column[row] for path, column in wave.rows.columns.items()} | _events(wave.rows, row)
        sound = wave.rows.failed[row] < 0
        observed = observe(recorded) if observe is not None and sound else None
        yield Point(number, values, recorded, observed, "" if sound else wave.rows.why.get(row, ""))


def _events(rows: Rows, row: int) -> dict[str, np.ndarray]:
    """Return the columns of the events of a point by path, with their `step`."""
    found = {}
    for folder, events in rows.events.items():
        begin, end = np.searchsorted(events[POINT], (row, row + 1))
        for name in events.dtype.names[1:] if events.dtype.names else ():
            found[f"{folder}/{name}"] = events[name][begin:end]
    return found
