"""`run.h5` of a sweep or a pool: the finished points, in the order of the sweep or the batch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.network.slices import coordinate_of_failed
from petabatch.results.in_memory import Row
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.description import Description, Status
from petabatch.storage.directory import RunDirectory
from petabatch.storage.layout import lay_out
from petabatch.storage.point_rows import Layout
from petabatch.storage.points import drop_lost
from petabatch.storage.segment import create_dataset, in_chunks
from petabatch.storage.zarr3.chunks import chunk_shape
from petabatch.storage.zarr3.metadata import Array, new_root, write
from petabatch.variable import Coordinate, Stream
from petabatch.waves.experiment import Experiment
from petabatch.waves.finished import Finished

_AT_ONCE, _BLOCK = 1 << 28, 1 << 25
"""Bytes of what is read at once; of the blocks in which more than that is copied."""
UNFINISHED = -2
"""Coordinate `failed` of a point of a Zarr store that is not finished."""
_NAMED = 100
"""Maximum number of failed points whose reasons are stored in `run.h5`."""


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
    kept = finished.files if any(not one.batched and not one.events for one in layout.known.values()) else ()
    common = next((found for file in kept if (found := file.common)), {})
    events = finished.events(done, layout)
    for one in events.values() if directory.in_zarr else ():
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

    def recorded(stream: Stream, length: int) -> np.ndarray:
        shape = (length, *stream.shape)
        if 0 in shape:
            return np.zeros(shape, stream.dtype)
        if stream.events:
            return events[_folder(stream)][stream.leaf]
        if not stream.batched:
            return common[stream.path]
        if len(done) == len(places):
            return np.moveaxis(finished.values(stream.path, places), 0, 1).reshape(shape)
        unknown = np.nan if np.issubdtype(stream.dtype, np.floating) else 0
        whole = np.full((length, len(places), batch, *stream.shape[1:]), unknown, stream.dtype)
        if len(done):
            whole[:, done] = np.moveaxis(finished.values(stream.path, done), 0, 1)
        return whole.reshape(shape)

    def values(group: Any, name: str, stream: Stream, length: int) -> Any:
        shape = (length, *stream.shape)
        if directory.in_zarr:
            found = recorded(stream, length)
            return group.add(name, Array(stream.dtype, found.shape, chunk_shape(stream, length), found))
        copied = stream.batched and not stream.events and 0 not in shape
        if copied and in_chunks(stream):
            return _copy_chunks(create_dataset(group, name, stream, shape), finished, places, stream.path)
        if copied and length * stream.nbytes > _AT_ONCE:
            return _copy_blocks(
                group.create_dataset(name, shape, stream.dtype), finished, places, stream.path
            )
        return group.create_dataset(name, data=recorded(stream, length))

    def times(group: Any, name: str, stream: Stream, length: int) -> Any:
        return group.create_dataset(name, data=steps[stream.path])

    differing = (
        *experiment.coordinates(streams, finished.points.numbers[places]),
        _failed(finished, places, layout),
    )
    row = Row(experiment.began, experiment.base.length, steps)
    described = replace(described, coordinates=differing)
    if directory.in_zarr:
        root = new_root()
        lay_out(root, [row], [], described, values, times)
        write(directory, root, lambda known: in_json.save(directory, names, known))
    else:
        in_json.save(directory, names)
        with new_hdf5(directory.run_file, run_id=directory.run_id) as (file, _):
            lay_out(file, [row], [], described, values, times)
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
