"""`run.h5` of a sweep or a pool: the finished points, in the order of the sweep or the batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petabatch.network.slices import coordinate_of_failed
from petabatch.results.in_memory import Row
from petabatch.storage.description import Description, Status
from petabatch.storage.directory import RunDirectory
from petabatch.storage.layout import lay_out
from petabatch.storage.point_rows import Layout, with_places
from petabatch.storage.points import PointsFile, drop_lost
from petabatch.variable import Coordinate, Stream
from petabatch.waves.experiment import Experiment
from petabatch.waves.finished import Finished

_AT_ONCE, _BLOCK = 1 << 28, 1 << 25
"""Bytes of what is read at once; of the blocks in which more than that is copied."""
UNFINISHED = -2
"""Coordinate `failed` of a point of a Zarr store that is not finished."""
_NAMED = 100
"""Maximum number of failed points whose reasons are stored in `run.h5`."""


@dataclass(frozen=True)
class _Recorded:
    """What points have recorded, in the order of their places in the index."""

    finished: Finished
    places: np.ndarray
    """Points that have a place."""
    done: np.ndarray
    """Those that are finished."""
    layout: Layout
    events: Mapping[str, np.ndarray]
    common: Mapping[str, np.ndarray]

    @property
    def batch(self) -> int:
        """Slices of a point."""
        return self.layout.batch

    def values(self, stream: Stream, length: int) -> np.ndarray:
        """Return the values of a stream at its `length` times; NaN, or 0, of points that are not finished."""
        shape = (length, *stream.shape)
        if 0 in shape:
            return np.zeros(shape, stream.dtype)
        if stream.events:
            return self.events[_folder(stream)][stream.leaf]
        if not stream.batched:
            return self.common[stream.path]
        if len(self.done) == len(self.places):
            found = self.finished.values(stream.path, self.places, self.layout)
            return np.moveaxis(found, 0, 1).reshape(shape)
        unknown = np.nan if np.issubdtype(stream.dtype, np.floating) else 0
        each = (self.batch, *stream.shape[1:])
        whole = np.full((length, len(self.places), *each), unknown, stream.dtype)
        if len(self.done):
            whole[:, self.done] = np.moveaxis(self.finished.values(stream.path, self.done, self.layout), 0, 1)
        return whole.reshape(shape)

    def fits(self, stream: Stream, length: int) -> bool:
        """Return whether these need little memory."""
        return length * stream.nbytes <= _AT_ONCE

    def copy_chunks(self, path: str, target: Any) -> None:
        """Copy what is compressed as it is."""
        shape = self.layout.recorded[path]
        for file, rows, place in self.finished.stretches(self.places, len(self.places)):
            if file.layout.recorded.get(path) != shape:
                for row in rows:
                    self._copy(path, file, range(row, row + 1), place + row - rows.start, target, shape[0])
                continue
            for (row, step, slice_, *rest), mask, data in file.chunks(path, rows):
                number = (place + row - rows.start) * self.batch + slice_
                target.id.write_direct_chunk((step, number, *rest), data, mask)

    def copy_blocks(self, path: str, target: Any) -> None:
        """Copy what does not fit into memory."""
        point = target.nbytes // len(self.places)
        times = max(1, len(target) * _BLOCK // point)
        for file, rows, place in self.finished.stretches(self.places, max(1, _BLOCK // point)):
            self._copy(path, file, rows, place, target, times)

    def _copy(self, path: str, file: PointsFile, rows: range, place: int, target: Any, times: int) -> None:
        first, end = place * self.batch, (place + len(rows)) * self.batch
        if path not in file.layout.recorded:
            return
        for at, values in file.blocks(path, rows, times):
            values = with_places(values, self.layout.recorded[path][-1])
            count = values.shape[1]
            shape = (count, end - first, *target.shape[2:])
            target[at : at + count, first:end] = np.moveaxis(values, 0, 1).reshape(shape)


def write_index(
    directory: RunDirectory,
    experiment: Experiment,
    finished: Finished,
    provenance: Mapping[str, object],
    status: Status,
) -> float:
    """Rewrite the index over the finished points; called by one process. Return the seconds that it took.

    A Zarr store has a place for all points from the beginning, so that nobody who reads it meanwhile sees
    them move: those that are not finished are NaN, or 0.
    """
    began = time.monotonic()
    layout, batch = experiment.layout, experiment.layout.batch
    done = np.flatnonzero(finished.found >= 0)
    places = np.arange(len(finished.found)) if directory.format.all_points else done
    kept = finished.files if any(not one.batched and not one.events for one in layout.known.values()) else ()
    common = next((found for file in kept if (found := file.common)), {})
    events = finished.events(done, layout)
    for one in events.values() if directory.format.all_points else ():
        point, slice_ = np.divmod(one["slice"], batch)
        one["slice"] = batch * done[point] + slice_
    streams = tuple(
        replace(one, shape=(len(places) * batch, *one.shape[1:])) if one.batched else one
        for path, one in layout.known.items()
        if one.batched or one.events or path in common
    )
    failed = int(finished.failed.sum())
    counts = {"all": experiment.count, "finished": len(done) - failed, "failed": failed}
    numbers = finished.points.numbers
    why = {str(numbers[n]): finished.why(n) for n in np.flatnonzero(finished.failed)[:_NAMED].tolist()}
    about = {
        **provenance,
        "points": {**counts, "why": why},
        "run_id": directory.run_id,
    }
    described = Description(streams, about, len(places) * batch, status, experiment.files)
    names = (file.path.name for file in finished.files)
    in_json = replace(described, streams=(), batch=experiment.count * batch)
    steps = {path: np.asarray(steps, np.int64) for path, steps in layout.steps.items()}
    steps |= {one.path: events[_folder(one)]["step"] for one in streams if one.events}

    recorded = _Recorded(finished, places, done, layout, events, common)
    values = directory.format.place_of_points(recorded)

    def times(group: Any, name: str, stream: Stream, length: int) -> Any:
        return group.create_dataset(name, data=steps[stream.path])

    differing = (
        *experiment.coordinates(streams, finished.points.numbers[places]),
        _failed(finished, places, layout),
    )
    row = Row(experiment.began + 1, experiment.base.length, steps)
    described = replace(described, coordinates=differing)
    directory.format.write_index(
        directory,
        lambda root: lay_out(root, [row], [], described, values, times),
        lambda known: in_json.save(directory, names, known),
    )
    if status == "done":
        drop_lost(directory)
    return time.monotonic() - began


def _failed(finished: Finished, places: np.ndarray, layout: Layout) -> Coordinate:
    under_way = finished.found[places] < 0
    steps = np.where(under_way, UNFINISHED, finished.steps[places])
    found = coordinate_of_failed(np.repeat(steps, layout.batch))
    if not under_way.any():
        return found
    return replace(found, description=f"{found.description}, {UNFINISHED} if it is not finished")


def _folder(stream: Stream) -> str:
    return stream.path.rpartition("/")[0]
