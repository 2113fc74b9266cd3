"""`run.h5`: a small file of virtual datasets over the segments of all ranks, rewritten at every flush."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import h5py
import numpy as np

from petabatch.errors import StorageError
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.checkpoint import drop_checkpoints_after
from petabatch.storage.compact import LIMIT, compact
from petabatch.storage.directory import PARTS, RunDirectory
from petabatch.storage.layout import lay_out, write_attributes
from petabatch.storage.rows import Row, all_segments, find_rows
from petabatch.storage.segment import Segment
from petabatch.variable import Stream

Status = Literal["running", "stopped", "done"]


def write_index(
    directory: RunDirectory,
    streams: Sequence[Stream],
    provenance: Mapping[str, object],
    batch: int,
    status: Status = "running",
    until: int | None = None,
    limit: int = LIMIT,
) -> None:
    """Rewrite `run.h5` over all complete segments (up to step `until`); rank 0 alone calls this.

    All ranks must have written their segments before. Segments beyond `limit` are merged first, and the old
    ones are removed last, so that a kill at any point leaves a `run.h5` whose segments are all there.
    Raises StorageError when the segments do not fit together or the file cannot be written.
    """
    if until is None:
        compact(directory, streams, batch, limit)
    rows, superseded = find_rows(directory, batch)
    rows = [row for row in rows if until is None or row.last <= until]
    with new_hdf5(directory.run_file) as (file, _):
        lay_out(file, rows, streams, batch, _values(rows, batch), _steps(rows))
        write_attributes(file, provenance)
        reached = {
            "kind": "run",
            "status": status,
            "steps_reached": rows[-1].last if rows else 0,
            "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_attributes(file, reached)
    _remove(directory, superseded)


def drop_after(directory: RunDirectory, step: int) -> None:
    """Remove the segments and checkpoints of the steps after `step`, from which the run goes on.

    Rank 0 alone calls this, after `write_index(..., until=step)` and before any rank writes. Raises
    StorageError, with nothing removed, when a segment holds steps on both sides.
    """
    segments = all_segments(directory)
    for segment in segments:
        if segment.first <= step < segment.last:
            raise StorageError(
                f"{directory.parts / segment.name}: this segment goes beyond step {step}, so the run cannot "
                f"be resumed there\n    hint:     resume from a later checkpoint"
            )
    drop_checkpoints_after(directory, step)
    _remove(directory, [segment for segment in reversed(segments) if segment.first > step])


def _remove(directory: RunDirectory, segments: Sequence[Segment]) -> None:
    for segment in segments:
        directory.summaries.pop(segment.name, None)
        try:
            (directory.parts / segment.name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{directory.parts / segment.name}: cannot be removed: {error.strerror}"
            ) from error


def _values(rows: Sequence[Row], batch: int) -> Any:
    def place(group: Any, name: str, stream: Stream, length: int) -> Any:
        fill = np.nan if np.issubdtype(stream.dtype, np.floating) else 0
        if length == 0 or 0 in stream.shape:
            return group.create_dataset(name, shape=(length, *stream.shape), dtype=stream.dtype)
        layout = h5py.VirtualLayout((length, *stream.shape), stream.dtype)
        at = 0
        for row in rows:
            n, _ = row.times(stream)
            for segment in row.holding(stream):
                part = slice(0, batch) if segment.merged else slice(segment.lo, segment.hi)
                shape = (
                    (n, part.stop - part.start, *stream.shape[1:]) if stream.batched else (n, *stream.shape)
                )
                source = h5py.VirtualSource(f"{PARTS}/{segment.name}", f"{stream.path}/values", shape)
                layout[(slice(at, at + n), part) if stream.batched else slice(at, at + n)] = source
            at += n
        return group.create_virtual_dataset(name, layout, fillvalue=fill)

    return place


def _steps(rows: Sequence[Row]) -> Any:
    def place(group: Any, name: str, stream: Stream, length: int) -> Any:
        if length == 0:
            return group.create_dataset(name, shape=(0,), dtype=np.int64)
        layout = h5py.VirtualLayout((length,), np.int64)
        at = 0
        for row in rows:
            n, _ = row.times(stream)
            if n:
                name_in = f"{PARTS}/{row.holding(stream)[0].name}"
                layout[at : at + n] = h5py.VirtualSource(name_in, f"{stream.path}/step", (n,))
            at += n
        return group.create_virtual_dataset(name, layout, fillvalue=-1)

    return place
