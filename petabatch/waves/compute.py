"""A wave: some points of a sweep, computed together in one engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from petabatch.assembly import initialise, open_engine, open_evaluation
from petabatch.engine.assembly import Assembly
from petabatch.engine.engine import Engine
from petabatch.engine.recorder import Record
from petabatch.errors import InputError, NonFiniteError, ParamsError, PartError, PetabatchError
from petabatch.network.plan import Plan
from petabatch.spec.load import Loaded
from petabatch.storage.ledger import FAILED, VALUES, Layout
from petabatch.waves.finished import Points

_OF_A_POINT = (ParamsError, InputError, PartError, NonFiniteError)
"""Errors that the values of a point may cause."""


@dataclass(frozen=True)
class Wave:
    """Finished points."""

    points: Points
    rows: np.ndarray
    """One for each point, as `Layout.dtype` says."""
    failures: Mapping[int, str]
    """Why points failed, by the number of their row."""
    common: Mapping[str, np.ndarray]
    """What was recorded once for all points, by path."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds by activity."""


class Abandoned(Exception):
    """A wave was left because the run is to stop."""


def layout_of(plan: Plan, network: str, paths: tuple[str, ...]) -> Layout:
    """Return what is kept of each point, from the plan of one; `network` identifies what is swept."""
    streams, steps = [], {}
    for recording in plan.recordings:
        stream = recording.stream
        if stream.batched or "run.seed" not in paths:  # weights in common differ over seeds
            streams.append({**asdict(stream), "shape": list(stream.shape), "dims": list(stream.dims)})
            steps[stream.path] = recording.steps(0, plan.length)
    return Layout(network, paths, plan.graph.network.run.batch, tuple(streams), steps)


def waves(
    loaded: Loaded, points: Points, layout: Layout, threads: int | None, stopped: Callable[[], bool]
) -> Iterator[Wave]:
    """Compute points together; yield them as one wave, or, where one raises, in parts.

    A point that raises alone is a failed one. Raises Abandoned when `stopped`.
    """
    try:
        yield _wave(loaded, points, layout, threads, stopped)
    except _OF_A_POINT as error:
        if len(points.numbers) == 1:
            yield _failed(points, layout, error)
            return
        half = len(points.numbers) // 2
        for part in (slice(None, half), slice(half, None)):
            yield from waves(
                loaded, points.taken(np.arange(len(points.numbers))[part]), layout, threads, stopped
            )


def _wave(
    loaded: Loaded, points: Points, layout: Layout, threads: int | None, stopped: Callable[[], bool]
) -> Wave:
    assert loaded.network.sweep is not None
    sweep = loaded.network.sweep.only(points.numbers)
    own = replace(loaded, network=loaded.network.model_copy(update={"sweep": sweep}))
    began = time.monotonic()
    assembly = Assembly.of(own.network, None, threads)
    length = assembly.plan.length
    with ExitStack() as stack:
        engine = open_engine(own, assembly.planned(flush=length, tolerant=True))
        stack.callback(engine.close)
        if (evaluation := open_evaluation(engine, own)) is not None:
            stack.callback(evaluation.close)
        initialise(engine, own)
        planning = time.monotonic() - began
        for step in engine.run():
            if evaluation is not None:
                evaluation.record(step)
            if step < length and stopped():
                raise Abandoned
        wave = _taken(engine, engine.recorder.take(length), points, layout)
        return replace(wave, times={**engine.times(), "planning": planning})


def _taken(engine: Engine, records: list[Record], points: Points, layout: Layout) -> Wave:
    """Return what an engine has recorded, point by point."""
    count, batch = len(points.numbers), layout.batch
    rows = np.zeros(count, layout.dtype)
    rows[VALUES], rows[FAILED] = points.values, -1
    common = {}
    for record in records:
        path = record.stream.path
        if not record.stream.batched and path in layout.steps:
            common[path] = record.values
        elif record.stream.batched:
            shape = (len(record.steps), count, batch, *record.values.shape[2:])
            rows[path] = np.moveaxis(record.values.reshape(shape), 1, 0)
    failures = {}
    for lane in engine.lanes:
        for number in lane.slices if lane.failure is not None else ():
            row, place = divmod(number - engine.state.lo, batch)
            assert lane.failure is not None
            step = lane.failure.step
            _forget(rows[row], place, step, layout)
            if row not in failures or step < rows[FAILED][row]:
                failures[row] = f"{lane.failure.variable} is no longer finite"
                rows[FAILED][row] = step
    return Wave(points, rows, failures, common)


def _forget(row: np.void, place: int, step: int, layout: Layout) -> None:
    """Replace what a slice recorded from `step` on, when it had stopped, by NaN."""
    for path in layout.dtype.names or ():
        if path not in (VALUES, FAILED) and np.issubdtype(row[path].dtype, np.floating):
            row[path][np.asarray(layout.steps[path]) >= step, place] = np.nan


def _failed(points: Points, layout: Layout, error: PetabatchError) -> Wave:
    rows = np.zeros(1, layout.dtype)
    rows[VALUES], rows[FAILED] = points.values, getattr(error, "step", 0)
    for place in range(layout.batch):
        _forget(rows[0], place, 0, layout)
    return Wave(points, rows, {0: " ".join(str(error).split())}, {})
