"""The index, rewritten at flushes: `run.h5`, virtual datasets over all segments, or that of `run.zarr`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from petabatch.errors import StorageError
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.checkpoint import drop_checkpoints_after
from petabatch.storage.compact import LIMIT, compact
from petabatch.storage.description import Description
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import PARTS
from petabatch.storage.layout import Place, lay_out
from petabatch.storage.lost import drop_lost
from petabatch.storage.rows import Row, all_segments, find_gaps, find_rows
from petabatch.storage.segment import Segment
from petabatch.storage.zarr3 import metadata
from petabatch.variable import Stream

PAUSE = 400
"""Between two indexes this many times what the last one took: a quarter of a percent of the run.

The removal of old segments does not count: the later the next index, the more there are to remove.
"""
Piece = tuple[Segment, tuple[int, ...], tuple[int, ...]]
"""A segment, and the position of its values in the whole: start and count along each axis."""


def write_index(
    directory: RunDirectory, described: Description, until: int | None = None, limit: float = LIMIT
) -> float:
    """Rewrite the index over all complete segments (up to step `until`); called on rank 0 only.

    All ranks must have written their segments before. If there are more than `limit` segments, some are
    merged first; the old ones are removed last, so that after a kill at any point no segment of `run.h5` is
    missing. Returns the seconds that went into the index itself, whatever there was to merge and to remove.
    Raises StorageError when the segments do not fit together or the file cannot be written.
    """
    batch = described.batch
    if until is None:
        compact(directory, described.streams, batch, limit)
    began = time.monotonic()
    described = replace(described, provenance={**described.provenance, "run_id": directory.run_id})
    rows, superseded = find_rows(directory, batch, until)
    gaps = find_gaps(directory, rows, until)
    names = [segment.name for row in rows for segment in row.segments]
    if directory.in_zarr:
        metadata.write_index(directory, rows, gaps, described, names)
    else:
        described.save(directory, names)
        with new_hdf5(directory.run_file, run_id=directory.run_id) as (file, _):
            lay_out(file, rows, gaps, described, _values(rows, batch), _steps(rows))
    took = time.monotonic() - began
    _remove(directory, superseded)
    return took


def drop_after(directory: RunDirectory, step: int) -> None:
    """Remove the segments and checkpoints of the steps after `step`, from which the run is resumed.

    Called on rank 0 only, after `write_index(..., until=step)` and before any rank writes. A run resumed from
    step 0 records that step again, so every segment is removed. Raises StorageError, with nothing removed,
    when a segment has steps both before and after `step`.
    """
    segments = all_segments(directory)
    for segment in segments:
        if step > 0 and segment.first <= step < segment.last:
            raise StorageError(
                f"{directory.parts / segment.name}: this segment extends beyond step {step}, so the run "
                f"cannot be resumed there\n    hint:     resume from a later checkpoint"
            )
    drop_checkpoints_after(directory, step)
    _remove(directory, [segment for segment in reversed(segments) if segment.first > step or step == 0])
    drop_lost(directory, lambda segment: segment.first > step or step == 0)


def _remove(directory: RunDirectory, segments: Sequence[Segment]) -> None:
    for segment in segments:
        directory.summaries.pop(segment.name, None)
        try:
            (directory.parts / segment.name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{directory.parts / segment.name}: cannot be removed: {error.strerror}"
            ) from error


def _values(rows: Sequence[Row], batch: int) -> Place:
    def place(group: Any, name: str, stream: Stream, length: int) -> Any:
        shape = (length, *stream.shape)
        if 0 in shape:
            return group.create_dataset(name, shape=shape, dtype=stream.dtype)

        def pieces() -> Iterator[Piece]:
            at = 0
            for row in rows:
                n, _ = row.times(stream)
                for segment in row.holding(stream):
                    lo, hi = (0, batch) if segment.merged else (segment.lo, segment.hi)
                    start = (
                        (at, lo, *(0,) * (len(shape) - 2))
                        if stream.batched
                        else (at, *(0,) * (len(shape) - 1))
                    )
                    count = (n, hi - lo, *shape[2:]) if stream.batched else (n, *shape[1:])
                    yield segment, start, count
                at += n

        # what HDF5 returns where a segment is missing
        fill = np.nan if np.issubdtype(stream.dtype, np.floating) else 0
        return _virtual(group, name, stream.dtype, shape, f"{stream.path}/values", pieces(), fill)

    return place


def _steps(rows: Sequence[Row]) -> Place:
    def place(group: Any, name: str, stream: Stream, length: int) -> Any:
        if length == 0:
            return group.create_dataset(name, shape=(0,), dtype=np.int64)

        def pieces() -> Iterator[Piece]:
            at = 0
            for row in rows:
                n, _ = row.times(stream)
                if n:
                    yield row.holding(stream)[0], (at,), (n,)
                at += n

        return _virtual(group, name, "int64", (length,), f"{stream.path}/step", pieces(), -1)

    return place


def _virtual(
    group: Any,
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    inside: str,
    pieces: Iterator[Piece],
    fill: float,
) -> Any:
    """Create a virtual dataset, five times as fast as h5py's own VirtualLayout."""
    space = h5py.h5s.create_simple(shape)
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_fill_value(np.asarray(fill, dtype))
    for segment, start, count in pieces:
        space.select_hyperslab(start, count)
        source = h5py.h5s.create_simple(count)
        creation.set_virtual(space, f"{PARTS}/{segment.name}".encode(), inside.encode(), source)
    space.select_all()
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    h5py.h5d.create(group.id, name.encode(), kind, space, creation)
    return group[name]
