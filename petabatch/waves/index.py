"""`run.h5` of a sweep or a pool: the finished points, in the order of the sweep or the batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petabatch.network.slices import coordinate_of_failed
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.description import Description, Status
from petabatch.storage.directory import RunDirectory
from petabatch.storage.layout import lay_out
from petabatch.storage.points import Layout, drop_lost
from petabatch.storage.segment import create_dataset, in_chunks
from petabatch.variable import Coordinate, Stream
from petabatch.waves.experiment import Experiment
from petabatch.waves.finished import Finished

_AT_ONCE, _BLOCK = 1 << 28, 1 << 25
"""Bytes of what is read at once; of the blocks in which more than that is copied."""
_NAMED = 100
"""Maximum number of failed points whose reasons are stored in `run.h5`."""


@dataclass(frozen=True)
class _Row:
    """All steps, as one row of segments."""

    first: int
    last: int
    steps: Mapping[str, np.ndarray]

    def times(self, stream: Stream) -> tuple[int, int]:
        """Return the number of times, and what tells their steps from others."""
        steps = self.steps[stream.path]
        return len(steps), hash(steps.tobytes())


def write_index(
    directory: RunDirectory,
    experiment: Experiment,
    finished: Finished,
    provenance: Mapping[str, object],
    status: Status,
) -> float:
    """Rewrite `run.h5` over the finished points; called by one process. Return the seconds that it took."""
    began = time.monotonic()
    layout, batch = experiment.layout, experiment.layout.batch
    places = np.flatnonzero(finished.found >= 0)
    kept = finished.files if any(not one.batched and not one.events for one in layout.known.values()) else ()
    common = next((found for file in kept if (found := file.common)), {})
    events = finished.events(places, layout)
    streams = tuple(
        replace(one, shape=(len(places) * batch, *one.shape[1:])) if one.batched else one
        for path, one in layout.known.items()
        if one.batched or one.events or path in common
    )
    failed = int(finished.failed.sum())
    counts = {"all": experiment.count, "finished": len(places) - failed, "failed": failed}
    numbers = finished.points.numbers
    why = {str(numbers[n]): finished.why(n) for n in np.flatnonzero(finished.failed)[:_NAMED].tolist()}
    about = {
        **provenance,
        "points": {**counts, "why": why},
        "run_id": directory.run_id,
    }
    described = Description(streams, about, len(places) * batch, status, experiment.files)
    names = (file.path.name for file in finished.files)
    replace(described, streams=(), batch=experiment.count * batch).save(directory, names)
    steps = {path: np.asarray(steps, np.int64) for path, steps in layout.steps.items()}
    steps |= {one.path: events[_folder(one)]["step"] for one in streams if one.events}

    def values(group: Any, name: str, stream: Stream, length: int) -> Any:
        shape = (length, *stream.shape)
        if 0 in shape:
            return group.create_dataset(name, data=np.zeros(shape, stream.dtype))
        if stream.events:
            return group.create_dataset(name, data=events[_folder(stream)][stream.leaf])
        if not stream.batched:
            return group.create_dataset(name, data=common[stream.path])
        if in_chunks(stream):
            return _copy_chunks(create_dataset(group, name, stream, shape), finished, places, stream.path)
        if length * stream.nbytes <= _AT_ONCE:
            found = np.moveaxis(finished.values(stream.path, places), 0, 1).reshape(shape)
            return group.create_dataset(name, data=found)
        return _copy_blocks(group.create_dataset(name, shape, stream.dtype), finished, places, stream.path)

    def times(group: Any, name: str, stream: Stream, length: int) -> Any:
        return group.create_dataset(name, data=steps[stream.path])

    differing = (
        *experiment.coordinates(streams, finished.points.numbers[places]),
        _failed(finished, places, layout),
    )
    with new_hdf5(directory.run_file, run_id=directory.run_id) as (file, _):
        row = _Row(experiment.began, experiment.base.length, steps)
        lay_out(file, [row], [], replace(described, coordinates=differing), values, times)
    if status == "done":
        drop_lost(directory)
    return time.monotonic() - began


def _failed(finished: Finished, places: np.ndarray, layout: Layout) -> Coordinate:
    return coordinate_of_failed(np.repeat(finished.steps[places], layout.batch))


def _copy_chunks(target: Any, finished: Finished, places: np.ndarray, path: str) -> Any:
    """Copy what is compressed as it is."""
    batch = target.shape[1] // len(places)
    for file, rows, place in finished.stretches(places, len(places)):
        for (row, step, slice_, *rest), mask, data in file.chunks(path, rows):
            number = (place + row - rows.start) * batch + slice_
            target.id.write_direct_chunk((step, number, *rest), data, mask)
    return target


def _copy_blocks(target: Any, finished: Finished, places: np.ndarray, path: str) -> Any:
    """Copy what does not fit into memory."""
    batch, point = target.shape[1] // len(places), target.nbytes // len(places)
    times = max(1, len(target) * _BLOCK // point)
    for file, rows, place in finished.stretches(places, max(1, _BLOCK // point)):
        first, end = place * batch, (place + len(rows)) * batch
        for at, values in file.blocks(path, rows, times):
            count = values.shape[1]
            shape = (count, end - first, *target.shape[2:])
            target[at : at + count, first:end] = np.moveaxis(values, 0, 1).reshape(shape)
    return target


def _folder(stream: Stream) -> str:
    return stream.path.rpartition("/")[0]
