"""`run.h5` of a sweep in waves: the finished points, in the order of the sweep or the batch."""

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
from petabatch.storage.zarr3.chunks import chunk_shape
from petabatch.storage.zarr3.metadata import Array, new_root, write
from petabatch.variable import Coordinate, Stream
from petabatch.waves.experiment import Experiment
from petabatch.waves.finished import Finished

UNFINISHED = -2
"""Coordinate `failed` of a point of a Zarr store that is not finished."""
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
    """Rewrite `run.h5` over the finished points; called by one process. Return the seconds that it took.

    A Zarr store has a place for all points from the beginning, so that nobody who reads it meanwhile sees
    them move: those that are not finished are NaN, or 0.
    """
    began = time.monotonic()
    layout, batch = experiment.layout, experiment.layout.batch
    done = np.flatnonzero(finished.found >= 0)
    places = np.arange(len(finished.found)) if directory.in_zarr else done
    kept = finished.files if any(not table["batched"] for table in layout.streams) else ()
    common = next((found for file in kept if (found := file.common)), {})
    known = (table for table in layout.streams if table["batched"] or table["path"] in common)
    streams = tuple(_stream(table, len(places) * batch) for table in known)
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

    def recorded(stream: Stream, length: int) -> np.ndarray:
        shape = (length, *stream.shape)
        if not stream.batched:
            return common[stream.path]
        if len(done) == len(places) and 0 not in shape:
            return np.moveaxis(finished.values(stream.path, places), 0, 1).reshape(shape)
        unknown = np.nan if np.issubdtype(stream.dtype, np.floating) else 0
        whole = np.full((length, len(places), batch, *stream.shape[1:]), unknown, stream.dtype)
        if len(done) and 0 not in shape:
            whole[:, done] = np.moveaxis(finished.values(stream.path, done), 0, 1)
        return whole.reshape(shape)

    def values(group: Any, name: str, stream: Stream, length: int) -> Any:
        found = recorded(stream, length)
        if directory.in_zarr:
            return group.add(name, Array(stream.dtype, found.shape, chunk_shape(stream, length), found))
        return group.create_dataset(name, data=found)

    def times(group: Any, name: str, stream: Stream, length: int) -> Any:
        return group.create_dataset(name, data=steps[stream.path])

    differing = (
        *experiment.coordinates(streams, finished.points.numbers[places]),
        _failed(finished, places, layout),
    )
    rows, described = [_Row(0, experiment.base.length, steps)], replace(described, coordinates=differing)
    if directory.in_zarr:
        root = new_root()
        lay_out(root, rows, [], described, values, times)
        write(directory, root, lambda known: in_json.save(directory, names, known))
    else:
        in_json.save(directory, names)
        with new_hdf5(directory.run_file, run_id=directory.run_id) as (file, _):
            lay_out(file, rows, [], described, values, times)
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


def _stream(table: Mapping[str, Any], slices: int) -> Stream:
    stream = Stream.of(table)
    return replace(stream, shape=(slices, *stream.shape[1:])) if stream.batched else stream
