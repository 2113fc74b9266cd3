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
from petabatch.variable import Coordinate, Stream
from petabatch.waves.experiment import Experiment
from petabatch.waves.finished import Finished

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
    kept = finished.files if any(not table["batched"] for table in layout.streams) else ()
    common = next((found for file in kept if (found := file.common)), {})
    known = (table for table in layout.streams if table["batched"] or table["path"] in common)
    streams = tuple(_stream(table, len(places) * batch) for table in known)
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

    def values(group: Any, name: str, stream: Stream, length: int) -> Any:
        shape = (length, *stream.shape)
        if 0 in shape:
            found = np.zeros(shape, stream.dtype)
        elif stream.batched:
            found = np.moveaxis(finished.values(stream.path, places), 0, 1).reshape(shape)
        else:
            found = common[stream.path]
        return group.create_dataset(name, data=found)

    def times(group: Any, name: str, stream: Stream, length: int) -> Any:
        return group.create_dataset(name, data=steps[stream.path])

    differing = (
        *experiment.coordinates(streams, finished.points.numbers[places]),
        _failed(finished, places, layout),
    )
    with new_hdf5(directory.run_file, run_id=directory.run_id) as (file, _):
        row = _Row(0, experiment.base.length, steps)
        lay_out(file, [row], [], replace(described, coordinates=differing), values, times)
    if status == "done":
        drop_lost(directory)
    return time.monotonic() - began


def _failed(finished: Finished, places: np.ndarray, layout: Layout) -> Coordinate:
    return coordinate_of_failed(np.repeat(finished.steps[places], layout.batch))


def _stream(table: Mapping[str, Any], slices: int) -> Stream:
    stream = Stream.of(table)
    return replace(stream, shape=(slices, *stream.shape[1:])) if stream.batched else stream
