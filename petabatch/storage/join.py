"""Copying of segments into one file, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.errors import StorageError
from petabatch.storage.rows import Row
from petabatch.storage.segment import Segment
from petabatch.variable import Stream

_BLOCK = 1 << 22
"""Bytes copied at a time."""


def join(
    parts: Path,
    rows: Sequence[Row],
    values: Mapping[Stream, Any],
    steps: Mapping[Stream, Any],
    check: Callable[[], None],
) -> None:
    """Copy the values and steps of all streams in `rows` into datasets of sufficient size.

    `check` is called regularly and raises when the target can no longer be written.
    """
    at = dict.fromkeys(values, 0)
    for row in rows:
        with ExitStack() as stack:
            files = {s: stack.enter_context(_open(parts / s.name)) for s in row.segments}
            for stream, target in values.items():
                length, _ = row.times(stream)
                sources = {segment: files[segment][stream.path] for segment in row.holding(stream)}
                if length and stream in steps:
                    _copy_steps(next(iter(sources.values()))["step"], steps[stream], at[stream])
                if length and target.chunks:
                    _copy_chunks(stream, sources, target, at[stream], check)
                elif length:
                    _copy_blocks(stream, sources, target, at[stream], length, check)
                at[stream] += length


def _copy_steps(source: Any, target: Any, at: int) -> None:
    many = _BLOCK // target.dtype.itemsize
    for start in range(0, len(source), many):
        stop = min(start + many, len(source))
        target[at + start : at + stop] = source[start:stop]


def _copy_chunks(
    stream: Stream, sources: Mapping[Segment, Any], target: Any, at: int, check: Callable[[], None]
) -> None:
    """Copy compressed chunks without decompressing them; each holds one time of one slice."""
    for segment, source in sources.items():
        dataset = source["values"]
        for chunk in dataset.iter_chunks():
            place = [axis.start for axis in chunk]
            mask, data = dataset.id.read_direct_chunk(tuple(place))
            place[0] += at
            if stream.batched:
                place[1] += max(segment.lo, 0)
            target.id.write_direct_chunk(tuple(place), data, mask)
            check()


def _copy_blocks(
    stream: Stream,
    sources: Mapping[Segment, Any],
    target: Any,
    at: int,
    length: int,
    check: Callable[[], None],
) -> None:
    """Copy contiguous values, several times of all slices at once, so that writes are contiguous."""
    rest = target.shape[1:]
    many = max(1, _BLOCK // max(1, int(np.prod(rest)) * target.dtype.itemsize))
    for start in range(0, length, many):
        stop = min(start + many, length)
        block = np.empty((stop - start, *rest), target.dtype)
        for segment, source in sources.items():
            part = slice(segment.lo, segment.hi) if stream.batched and not segment.merged else slice(None)
            block[(slice(None), part) if stream.batched else ...] = source["values"][start:stop]
        target[at + start : at + stop] = block
        check()


def _open(path: Path) -> Any:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise StorageError(f"{path}: this segment cannot be read: {error}") from error
