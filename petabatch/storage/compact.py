"""Merging old segments into larger ones, so that a long run does not become a crowd of files."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from petabatch.storage.atomic import new_hdf5
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.directory import RunDirectory
from petabatch.storage.join import join
from petabatch.storage.rows import Row, find_rows
from petabatch.storage.segment import Segment, Summary, checksum, create_dataset, describe
from petabatch.variable import Stream

LIMIT = 256
"""Segments a run has at most."""
_FAN = 16
"""Segments of like size that are worth merging; each value is copied about log16(flushes) times in all."""


def compact(directory: RunDirectory, streams: Sequence[Stream], batch: int, limit: int = LIMIT) -> None:
    """Merge neighbouring segments when there are more than `limit`; rank 0 alone calls this.

    The old files stay until an index without them is written. No merged file crosses a checkpoint, so that a
    run can be resumed from any of them.
    """
    rows, _ = find_rows(directory, batch)
    barriers = checkpoint_steps(directory)
    for alike in (_FAN, 2):
        if sum(len(row.segments) for row in rows) <= limit:
            return

        def kind(row: Row, tiered: bool = alike == _FAN) -> tuple[int, int]:
            level = int(math.log(row.flushes, _FAN)) if tiered else 0
            return bisect_left(barriers, row.last), level

        for group in [list(group) for _, group in groupby(rows, key=kind)]:
            if sum(len(row.segments) for row in group) >= alike:
                _merge_rows(directory, group, streams, batch)
        rows, _ = find_rows(directory, batch)


def _merge_rows(directory: RunDirectory, rows: Sequence[Row], streams: Sequence[Stream], batch: int) -> None:
    segment = Segment(rows[0].first, rows[-1].last)
    with new_hdf5(directory.parts / segment.name) as (file, check):
        values, steps = {}, {}
        for stream in streams:
            length = sum(row.times(stream)[0] for row in rows)
            group = file.create_group(stream.path)
            steps[stream] = group.create_dataset("step", shape=(length,), dtype=np.int64)
            values[stream] = create_dataset(group, "values", stream, (length, *stream.shape))
        join(directory.parts, rows, values, steps, check)
        times = {stream.path: (len(steps[stream]), checksum(steps[stream])) for stream in streams}
        describe(file, segment, Summary(sum(row.flushes for row in rows), times))
