"""Points that are computed together: a wave in one engine, or what a slot of a pool has made."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from petabatch.assembly import initialise, open_engine, open_evaluation
from petabatch.engine.driver import At, drive
from petabatch.engine.engine import Engine
from petabatch.engine.failure import OF_A_SLICE, Failure
from petabatch.engine.pool import Stopped
from petabatch.engine.recorder import Record
from petabatch.importing import uncollected
from petabatch.kernels.cuda.device import Device
from petabatch.network.periods import beside_arrivals
from petabatch.network.plan import Plan, multiply_adds
from petabatch.one_batch import note_of
from petabatch.spec.load import Loaded
from petabatch.storage.memory import Memory
from petabatch.storage.points import FAILED, VALUES, Layout
from petabatch.storage.wave import SavedWave
from petabatch.waves.checkpoints import WaveCheckpoints
from petabatch.waves.finished import Points
from petabatch.waves.team import Team

_OPERATIONS = 5e9
"""Operations of a wave between two steps at which its slices meet: half a second of most compiled steps, and
seconds of others."""


@dataclass(frozen=True)
class Wave:
    """Finished points, and what was recorded of them."""

    points: Points
    rows: np.ndarray
    """One for each point, as `Layout.dtype` says."""
    failures: Mapping[int, str]
    """Why points failed, by the number of their row."""
    common: Mapping[str, np.ndarray]
    """What was recorded once for all points, by path."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds by activity."""


def layout_of(plan: Plan, network: str, paths: tuple[str, ...], batch: int, same: bool = True) -> Layout:
    """Return what is kept of each point of `batch` slices; `network` identifies what is swept.

    What slices have in common is kept where it is the `same` in all waves.
    """
    streams, steps = [], {}
    for recording in plan.recordings:
        stream = recording.stream
        if stream.events:  # of probes alone, or the run would have been refused
            continue
        if stream.batched or same:
            shape = [batch, *stream.shape[1:]] if stream.batched else list(stream.shape)
            streams.append({**asdict(stream), "shape": shape, "dims": list(stream.dims)})
            steps[stream.path] = recording.steps(0, plan.length)
    return Layout(network, paths, batch, tuple(streams), steps)


def waves(
    loaded: Loaded,
    points: Points,
    layout: Layout,
    team: Team,
    device: Device | None,
    stopped: Callable[[], bool],
    checkpoints: WaveCheckpoints | None = None,
) -> Iterator[Wave]:
    """Compute points together; the first of a team yields them as one wave, or, where one raises, in parts.

    A point that raises alone is a failed one, and so it is for a team if it raises on all its ranks: else
    others wait for the rank that has raised. With `checkpoints`, a wave goes on from the last of its own.
    Raises Stopped when `stopped`, which is collective for the team.
    """
    try:
        with team.meeting():
            wave = _wave(loaded, points, layout, team, device, stopped, checkpoints)
        # The parts of an engine refer to each other. Later, it would be among what is hardly ever collected.
        gc.collect(1)
        if team.leads:
            yield wave
    except OF_A_SLICE as error:
        if team.group.size > 1 and not error.in_group:
            places = sorted({slice_ // layout.batch for slice_ in error.slices})
            error.args = (f"{error}{note_of(points.numbers[places].tolist())}", *error.args[1:])
            raise
        if len(points.numbers) == 1:
            if team.leads:
                yield failed(points, layout, Failure.of(error, 0))
            return
        half = len(points.numbers) // 2
        for part in (slice(None, half), slice(half, None)):
            some = points.taken(np.arange(len(points.numbers))[part])
            yield from waves(loaded, some, layout, team, device, stopped, checkpoints)


def _wave(
    loaded: Loaded,
    points: Points,
    layout: Layout,
    team: Team,
    device: Device | None,
    stopped: Callable[[], bool],
    checkpoints: WaveCheckpoints | None,
) -> Wave:
    """Compute points together; collective for a team, whose first rank returns what was recorded."""
    assert loaded.network.sweep is not None
    sweep = loaded.network.sweep.only(points.numbers)
    own = replace(loaded, network=loaded.network.model_copy(update={"sweep": sweep}))
    began = time.monotonic()
    with ExitStack() as stack:
        with uncollected():  # lanes of all points are made, none of them garbage
            assembly = team.assembly(own.network, device)
            length = assembly.plan.length
            period = _period(assembly.plan, layout.batch * len(points.numbers))
            engine = open_engine(own, assembly.planned(flush=length, tolerant=True, checkpoint=period))
            stack.callback(engine.close)
            if (evaluation := open_evaluation(engine, own)) is not None:
                stack.callback(evaluation.close)
            found = checkpoints.begin(points) if checkpoints is not None and team.leads else None
            before: SavedWave | None = team.group.broadcast(found)
            memory = Memory()
            if before is None:
                initialise(engine, own)
            else:
                _go_on(engine, before)
                memory.put(_recorded_before(engine, before), 0, before.step)
        planning = time.monotonic() - began

        def under_way(step: int) -> bool:
            return step < length

        def save_or_stop(step: int) -> None:
            stop = stopped()
            due = checkpoints is not None and team.any(team.leads and checkpoints.due)
            if checkpoints is not None and (stop or due):
                saved = _saved(engine, points, memory)
                if team.leads:
                    checkpoints.save(saved)
            if stop:
                raise Stopped

        hooks = () if evaluation is None else (evaluation,)
        for _ in drive(engine, *hooks, At(under_way, save_or_stop), watch=team.watch):
            pass
        wave = taken(points, layout, _recorded(engine, memory), engine.failures)
        return replace(wave, times={**engine.times(), "planning": planning})


def _period(plan: Plan, slices: int) -> int:
    """Return after how many steps slices meet at the latest, for signals and checkpoints."""
    graph = plan.graph
    synapses = sum(len(one.targets) for one in graph.synapses.values())
    steps = int(_OPERATIONS / (slices * (multiply_adds(graph) + synapses + beside_arrivals(graph))))
    return max(1, min(steps, plan.checkpoint or steps))


def _recorded(engine: Engine, memory: Memory) -> list[Record]:
    """Return what has been recorded of a wave; collective for a team, of which the first rank has it."""
    recorder = engine.recorder
    memory.put(engine.features.records(recorder.take(engine.step)), recorder.first, engine.step)
    return list(memory.joined())


def _saved(engine: Engine, points: Points, memory: Memory) -> SavedWave:
    """Return the state of a wave; collective for a team, of which the first rank has it."""
    engine.collect()
    records = {one.stream.path: (one.steps, one.values) for one in _recorded(engine, memory)}
    why = {place: (failure.why, failure.step) for place, failure in engine.failures.items()}
    return SavedWave(points.values, engine.step, engine.features.whole(engine.saved()), records, why)


def _go_on(engine: Engine, before: SavedWave) -> None:
    """Set the state of a saved wave; slices that had failed stay so."""
    engine.resume(before.step, engine.features.part(before.arrays))
    engine.stop({place: Failure(*found) for place, found in before.failures.items()})


def _recorded_before(engine: Engine, before: SavedWave) -> list[Record]:
    """Return what a saved wave has recorded."""
    streams = {one.stream.path: one.stream for one in engine.plan.recordings}
    return [Record(streams[path], *found) for path, found in before.records.items()]


def taken(points: Points, layout: Layout, records: Sequence[Record], stopped: Mapping[int, Failure]) -> Wave:
    """Return what was recorded of points, and of which slices `stopped`, by their place among all of them."""
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
    for number, failure in stopped.items():
        row, place = divmod(number, batch)
        _forget(rows[row], place, failure.step, layout)
        if row not in failures or failure.step < rows[FAILED][row]:
            failures[row] = failure.why
            rows[FAILED][row] = failure.step
    return Wave(points, rows, failures, common)


def _forget(row: np.void, place: int, step: int, layout: Layout) -> None:
    """Replace what a slice recorded from `step` on, when it had stopped, by NaN."""
    for path in layout.dtype.names or ():
        if path not in (VALUES, FAILED) and np.issubdtype(row[path].dtype, np.floating):
            row[path][np.asarray(layout.steps[path]) >= step, place] = np.nan


def failed(points: Points, layout: Layout, failure: Failure) -> Wave:
    """Return a point that has failed as a whole."""
    rows = np.zeros(1, layout.dtype)
    rows[VALUES], rows[FAILED] = points.values, failure.step
    for place in range(layout.batch):
        _forget(rows[0], place, 0, layout)
    return Wave(points, rows, {0: failure.why}, {})
