"""Compaction: merging of old segments into larger ones, to bound the number of files of a long run."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.directory import RunDirectory
from petabatch.storage.rows import Row, find_gaps, find_rows
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

    They are merged a few at a time, smallest first, so that no flush has to copy the whole run; with larger
    ones only where too few of the same size are neighbours. The old files are kept until an index without
    them is written. No merged file crosses a checkpoint, so that the run can be resumed from any of them;
    none crosses steps that are lost.
    """
    if most < math.inf and len(directory.summaries) <= limit:  # all are known to the process that writes them
        return
    merged = 0
    rows, _ = find_rows(directory, batch)
    barriers = sorted([*checkpoint_steps(directory), *(last for _, last in find_gaps(directory, rows))])
    many = _segments(rows)
    levels = range(max(map(_level, rows), default=0) + 1)
    for level, least in (*((level, _FAN) for level in levels), (math.inf, 2)):

        def kind(row: Row, level: float = level) -> tuple[int, float]:
            return bisect_left(barriers, row.last), max(_level(row), level)

        groups = [list(group) for _, group in groupby(rows, key=kind)]
        for few in sorted((few for group in groups for few in _portions(group)), key=_flushes):
            segments = _segments(few)
            if many <= limit or merged >= most:
                return
            if segments >= least:
                _merge_rows(directory, few, streams)
                many -= segments - 1
                merged += 1
        if merged:
            rows, _ = find_rows(directory, batch)


def _level(row: Row) -> int:
    """Return how often a row has been merged, if always with as many of its size."""
    return int(math.log(row.flushes, _FAN))


def _portions(rows: Sequence[Row]) -> list[list[Row]]:
    """Group neighbouring rows that together have enough segments to be worth merging.

    A rest of fewer joins the last group, or it would be left between two checkpoints.
    """
    portions: list[list[Row]] = [[]]
    for row in rows:
        if _segments(portions[-1]) >= _FAN:
            portions.append([])
        portions[-1].append(row)
    if len(portions) > 1 and _segments(portions[-1]) < _FAN:
        rest = portions.pop()
        portions[-1] += rest
    return portions


def _segments(rows: Sequence[Row]) -> int:
    return sum(len(row.segments) for row in rows)


def _flushes(rows: Sequence[Row]) -> int:
    return sum(row.flushes for row in rows)


def _merge_rows(directory: RunDirectory, rows: Sequence[Row], streams: Sequence[Stream]) -> None:
    segment, summary = directory.format.merge_rows(directory, rows, streams)
    for row in rows:
        for old in row.segments:
            directory.summaries.pop(old.name, None)
    directory.summaries[segment.name] = summary
