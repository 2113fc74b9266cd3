"""Points that are computed together: a wave in one engine, or what a slot of a pool has made."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from petabatch.assembly import initialise, opened
from petabatch.clock import fires
from petabatch.engine.driver import At, Hook, drive
from petabatch.engine.engine import Engine
from petabatch.engine.failure import OF_A_SLICE, Failure, note_of
from petabatch.engine.recorder import Record
from petabatch.engine.stopping import Stopped, Stops
from petabatch.importing import uncollected
from petabatch.kernels.cuda.device import Device
from petabatch.network.advice import log_advice
from petabatch.network.periods import beside_arrivals
from petabatch.network.plan import Plan, multiply_adds
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.start_from import Place
from petabatch.storage.point_rows import POINT, Layout, Room, Rows
from petabatch.storage.wave import SavedWave
from petabatch.waves.checkpoints import End, WaveCheckpoints
from petabatch.waves.finished import Points
from petabatch.waves.team import Team

_OPERATIONS = 5e9
"""Operations of a wave between two steps at which its slices meet: half a second of most compiled steps, and
seconds of others."""


@dataclass(frozen=True)
class Wave:
    """Finished points, and what was recorded of them."""

    points: Points
    rows: Rows
    times: Mapping[str, float] = field(default_factory=dict)
    """Seconds by activity."""


@dataclass(frozen=True)
class Making:
    """How points are computed: by whom, and what is done around their steps.

    Each rank of the team has a GPU of its own where they run on GPUs. The first of its ranks is asked whether
    to stop, told how far points are, and has checkpoints.
    """

    team: Team
    stopped: Callable[[], bool]
    checkpoints: WaveCheckpoints | None = None
    """Those that waves go on from; the first rank makes more of them."""
    reached: Callable[[float], object] = lambda points: None
    """It is told how far a wave is, as a number of points."""
    device: Device | None = None
    """The GPU of this rank, if waves are computed on one."""


def layout_of(
    plan: Plan, network: str, paths: tuple[str, ...], batch: int, same: bool = True, began: int = 0
) -> Layout:
    """Return what is kept of each point of `batch` slices; `network` identifies what is swept.

    What slices have in common is kept where it is the `same` in all waves. They `began` after a step.
    """
    streams, steps = [], {}
    for recording in plan.recordings:
        for stream in recording.streams:
            if stream.batched or stream.events or same:
                shape = [batch, *stream.shape[1:]] if stream.batched else list(stream.shape)
                streams.append({**asdict(stream), "shape": shape, "dims": list(stream.dims)})
            if stream.batched or (same and not stream.events):
                steps[stream.path] = recording.steps(began + (began > 0), plan.length)
    return Layout(network, paths, batch, tuple(streams), steps)


def waves(loaded: Loaded, points: Points, layout: Layout, making: Making) -> Iterator[Wave]:
    """Compute points together; the first of a team yields them as one wave, or, where one raises, in parts.

    A point that raises alone is a failed one, and so it is for a team if it raises on all its ranks: else
    others wait for the rank that has raised. Raises Stopped when `making.stopped`, which is collective for
    the team here.
    """
    team = making.team
    try:
        with team.meeting():
            wave = _wave(loaded, points, layout, making)
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
            yield from waves(loaded, points.taken(np.arange(len(points.numbers))[part]), layout, making)


def _wave(loaded: Loaded, points: Points, layout: Layout, making: Making) -> Wave:
    """Compute points together; collective for a team, whose first rank returns what was recorded."""
    assert loaded.network.sweep is not None
    team, checkpoints = making.team, making.checkpoints
    mine = checkpoints if team.leads else None
    sweep, place = loaded.network.sweep.only(points.numbers), _place(loaded.network, points)
    parallel = loaded.network.parallel.model_copy(update={"batch": None})
    own = replace(loaded, network=loaded.network.model_copy(update={"sweep": sweep, "parallel": parallel}))
    began = time.monotonic()
    with ExitStack() as stack:
        with uncollected(), team.watch.preparing():  # lanes of all points are made, none of them garbage
            assembly = team.assembly(own.network, making.device)
            length = assembly.plan.length
            period = _period(assembly.plan, layout.batch * len(points.numbers))
            planned = assembly.planned(tolerant=True, checkpoint=period)
            engine, evaluation = stack.enter_context(opened(own, planned))
            found = mine.begin(points) if mine is not None else None
            told = None if found is None else replace(found, recorded={}, events={}, common={})
            before: SavedWave | None = team.group.broadcast(told)
            room = mine.room(layout.nbytes * len(points.numbers)) if mine is not None else np.zeros
            recorded = Recorded(points, layout, room)
            if before is None:
                initialise(engine, own, place)
                if mine is not None and points.numbers[0] == 0:
                    log_advice(assembly.plan, {} if own.network.parallel.split else engine.state.arrays)
            else:
                _go_on(engine, before)
                recorded.go_on(found or before)
            del found, told, before  # else state and records are held twice, and the file stays open
        planning = time.monotonic() - began

        def is_due(step: int) -> bool:
            return step < length and checkpoints is not None and team.any(mine is not None and mine.due)

        def flushes(step: int) -> bool:
            return fires(engine.plan.flush, step) or step == length

        def flush(step: int) -> None:
            recorder = engine.recorder
            recorded.put(engine.features.records(recorder.take(step)), recorder.first, step)
            engine.flushed()

        def save(step: int) -> None:
            if not flushes(step):
                flush(step)
            engine.collect()
            saved = recorded.saved(engine)
            if mine is not None:
                mine.save(saved)

        def leave(step: int) -> None:
            if checkpoints is not None:
                save(step)
            raise Stopped

        def tell(step: int) -> None:
            making.reached(len(points.numbers) * step / length)

        hooks: list[Hook] = [] if evaluation is None else [evaluation]
        hooks += [At(lambda step: step < length, tell), At(flushes, flush)]
        hooks += [Stops(making.stopped, length, leave), At(is_due, save)]
        for _ in drive(engine, *hooks, watch=team.watch):
            pass
        if checkpoints is not None and checkpoints.keeps_ends:
            engine.collect()
            batched = {key for key in engine.saved() if engine.state.variables[key].per == "slice"}
            arrays = engine.features.whole(engine.saved())
            checkpoints.ends.append(End(place.numbers, length, arrays, batched, engine.failures))
        recorded.end(engine.failures)
        return Wave(points, recorded.rows, {**engine.times(), "planning": planning})


def _place(network: Network, points: Points) -> Place:
    """Return which slices of the sweep those of points are."""
    batch = network.run.batch
    numbers = (batch * points.numbers[:, None] + np.arange(batch)).ravel()
    return Place(numbers.tolist(), network.batch, batch)


def _period(plan: Plan, slices: int) -> int:
    """Return after how many steps slices meet at the latest, for signals and checkpoints."""
    graph = plan.graph
    synapses = sum(len(one.targets) for one in graph.synapses.values())
    steps = int(_OPERATIONS / (slices * (multiply_adds(graph) + synapses + beside_arrivals(graph))))
    return max(1, min(steps, plan.checkpoint or steps))


def _go_on(engine: Engine, before: SavedWave) -> None:
    """Set the state of a saved wave; slices that had failed stay so."""
    engine.resume(before.step, engine.features.part(before.arrays))
    engine.stop({place: Failure(*found) for place, found in before.failures.items()})


class Recorded:
    """What points that are computed together have recorded so far; a team's first rank has it."""

    def __init__(self, points: Points, layout: Layout, room: Room = np.zeros) -> None:
        self.rows, self._layout = Rows.of(layout, points.values, room), layout
        self._reached = dict.fromkeys(layout.recorded, 0)
        """How many times there are, by path."""
        self._events, self._common = dict[str, list[np.ndarray]](), dict[str, list[np.ndarray]]()
        """What was put since `_join`, by folder of events and by path."""

    def put(self, records: Iterable[Record], first: int, last: int) -> None:
        """Take what was recorded in steps `first` to `last`, of slices by their place among all."""
        count, batch = len(self.rows), self._layout.batch
        columns = dict[str, dict[str, np.ndarray]]()
        for record in records:
            path, begin = record.stream.path, self._reached.get(record.stream.path, 0)
            if record.stream.events:
                folder, _, leaf = path.rpartition("/")
                columns.setdefault(folder, {"step": record.steps})[leaf] = record.values
            elif path in self._reached:
                shape = (len(record.steps), count, batch, *record.values.shape[2:])
                self._reached[path] = end = begin + len(record.steps)
                self.rows.columns[path][:, begin:end] = np.moveaxis(record.values.reshape(shape), 1, 0)
            elif path in self._layout.steps and not record.stream.batched:
                self._common.setdefault(path, []).append(record.values)
        for folder, found in columns.items():
            self._put_events(folder, found)

    def _put_events(self, folder: str, columns: Mapping[str, np.ndarray]) -> None:
        new = np.empty(len(columns["step"]), self._layout.events[folder])
        for name, values in columns.items():
            new[name] = values
        new[POINT], new["slice"] = np.divmod(columns["slice"], self._layout.batch)
        self._events.setdefault(folder, []).append(new)

    def _join(self) -> None:
        """Join what was put since the last time, so that not every flush copies all before it."""
        for whole, parts in ((self.rows.events, self._events), (self.rows.common, self._common)):
            for name, new in parts.items():
                whole[name] = np.concatenate([*([whole[name]] if name in whole else []), *new])
            parts.clear()

    def saved(self, engine: Engine) -> SavedWave:
        """Return what is recorded with the state of an engine, after `collect`; collective for a team."""
        self._join()
        why = {place: (failure.why, failure.step) for place, failure in engine.failures.items()}
        columns = {path: self.rows.columns[path][:, :count] for path, count in self._reached.items()}
        arrays = engine.features.whole(engine.saved())
        return SavedWave(
            self.rows.values, engine.step, arrays, columns, self.rows.events, self.rows.common, why
        )

    def go_on(self, before: SavedWave) -> None:
        """Take over what was recorded before a checkpoint."""
        for path, values in before.recorded.items():
            self._reached[path] = times = values.shape[1]
            for row in range(len(values)):  # they need not fit into memory
                self.rows.columns[path][row, :times] = values[row]
        self.rows.events.update(before.events)
        self.rows.common.update(before.common)

    def end(self, stopped: Mapping[int, Failure]) -> None:
        """End with all steps; slices have `stopped`, by their place among all of them."""
        self._join()
        for folder, events in self.rows.events.items():
            self.rows.events[folder] = events[np.argsort(events[POINT], kind="stable")]
        for number, failure in stopped.items():
            row, place = divmod(number, self._layout.batch)
            self.forget(row, place, failure.step)
            if row not in self.rows.why or failure.step < self.rows.failed[row]:
                self.rows.why[row], self.rows.failed[row] = failure.why, failure.step

    def forget(self, row: int, place: int, step: int) -> None:
        """Replace what a slice recorded from `step` on, when it had stopped, by NaN."""
        for path, column in self.rows.columns.items():
            if np.issubdtype(column.dtype, np.floating):
                column[row, np.asarray(self._layout.steps[path]) >= step, place] = np.nan


def failed(points: Points, layout: Layout, failure: Failure) -> Wave:
    """Return a point that has failed as a whole."""
    recorded = Recorded(points, layout)
    recorded.end(dict.fromkeys(range(layout.batch), failure))
    for place in range(layout.batch):
        recorded.forget(0, place, 0)
    return Wave(points, recorded.rows)
