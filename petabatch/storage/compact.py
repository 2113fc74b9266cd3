"""Compaction: merging of old segments into larger ones, to bound the number of files of a long run."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby

from petabatch.storage import manifest
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.directory import RunDirectory
from petabatch.storage.join import join
from petabatch.storage.rows import Row, find_gaps, find_rows, verify_segments
from petabatch.storage.segment import Segment, Summary, checksum, create_dataset, create_plain, describe
from petabatch.variable import Stream

LIMIT = 128
"""Largest number of segments of a run."""
_FAN = 32
"""Segments of similar size merged at a time; each value is copied about log32(flushes) times in total."""


def compact(
    directory: RunDirectory,
    streams: Sequence[Stream],
    batch: int,
    limit: float = LIMIT,
    most: float = math.inf,
) -> None:
    """Merge neighbouring segments while there are more than `limit`, at most `most` times; rank 0 only.

    They are merged a few at a time, smallest first, so that no flush has to copy the whole run. The old files
    are kept until an index without them is written. No merged file crosses a checkpoint, so that the run can
    be resumed from any of them; none crosses steps that are lost.
    """
    if most < math.inf and len(directory.summaries) <= limit:  # all are known to the process that writes them
        return
    merged = 0
    for tiered in (True, False):
        rows, _ = find_rows(directory, batch)
        gaps = find_gaps(directory, rows)
        barriers = sorted([*checkpoint_steps(directory), *(last for _, last in gaps)])
        many = sum(len(row.segments) for row in rows)

        def kind(row: Row, tiered: bool = tiered, barriers: Sequence[int] = barriers) -> tuple[int, int]:
            level = int(math.log(row.flushes, _FAN)) if tiered else 0
            return bisect_left(barriers, row.last), level

        groups = [list(group) for _, group in groupby(rows, key=kind)]
        for few in sorted((few for group in groups for few in _portions(group)), key=_flushes):
            segments = sum(len(row.segments) for row in few)
            if many <= limit or merged >= most:
                return
            if segments >= (_FAN if tiered else 2):
                _merge_rows(directory, few, streams, batch)
                many -= segments - 1
                merged += 1


def _portions(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Group neighbouring rows that together have just enough segments to be worth merging."""
    portion: list[Row] = []
    for row in rows:
        portion.append(row)
        if sum(len(row.segments) for row in portion) >= _FAN:
            yield portion
            portion = []
    if portion:
        yield portion


def _flushes(rows: Sequence[Row]) -> int:
    return sum(row.flushes for row in rows)


def _merge_rows(directory: RunDirectory, rows: Sequence[Row], streams: Sequence[Stream], batch: int) -> None:
    verify_segments(directory, (segment for row in rows for segment in row.segments))
    segment = Segment(rows[0].first, rows[-1].last)
    with new_hdf5(directory.parts / segment.name) as (file, check):
        values, steps = {}, {}
        for stream in streams:
            length = sum(row.times(stream)[0] for row in rows)
            group = file.create_group(stream.path)
            steps[stream] = create_plain(group, "step", "int64", (length,))
            values[stream] = create_dataset(group, "values", stream, (length, *stream.shape))
        join(directory.parts, rows, values, steps, check)
        times = {stream.path: (len(steps[stream]), checksum(steps[stream])) for stream in streams}
        summary = Summary(sum(row.flushes for row in rows), times)
        describe(file, segment, summary)
    for row in rows:
        for old in row.segments:
            directory.summaries.pop(old.name, None)
    directory.summaries[segment.name] = summary
    manifest.append(directory.path, [manifest.Entry.of(directory.path / segment.path, segment.path)])
