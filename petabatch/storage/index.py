"""The index, rewritten at flushes: `run.h5`, or what the format has in its place, over all segments."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from petabatch.errors import StorageError
from petabatch.storage.atomic import remove
from petabatch.storage.checkpoint import drop_checkpoints_after
from petabatch.storage.compact import LIMIT, compact
from petabatch.storage.description import Description
from petabatch.storage.directory import RunDirectory
from petabatch.storage.layout import lay_out
from petabatch.storage.lost import drop_lost
from petabatch.storage.rows import all_segments, find_gaps, find_rows
from petabatch.storage.segment import Segment

PAUSE = 400
"""Between two indexes this many times what the last one took: a quarter of a percent of the run.

The removal of old segments does not count: the later the next index, the more there are to remove.
"""


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
    values, steps = directory.format.places(directory, rows, batch)
    directory.format.write_index(
        directory,
        lambda root: lay_out(root, rows, gaps, described, values, steps),
        lambda known: described.save(directory, names, known),
    )
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
        remove(directory.parts / segment.name)
