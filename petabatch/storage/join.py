"""Copying of segments into one file, in constant memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product, repeat
from operator import add
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.errors import StorageError
from petabatch.storage.rows import Row
from petabatch.storage.segment import Segment, compressed
from petabatch.variable import Stream

_BLOCK = 1 << 21
"""Bytes copied at a time."""
_STEP = np.dtype(np.int64)
Sources = Sequence[tuple[Segment, Any]]
"""Segments with their open files."""


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
    chunked = {stream for stream in values if compressed(stream)}
    appenders = {stream: _Appender(target) for stream, target in values.items() if stream not in chunked}
    step_appenders = {stream: _Appender(target) for stream, target in steps.items()}
    for row in rows:
        with ExitStack() as stack:
            files = {s: stack.enter_context(_opened(parts / s.name)) for s in row.segments}
            read: dict[tuple[int, int], np.ndarray] = {}
            for stream, target in values.items():
                times = row.times(stream)
                length, _ = times
                if not length:
                    continue
                sources = [(segment, files[segment]) for segment in row.holding(stream)]
                if stream in steps and times in read:
                    step_appenders[stream].append(read[times])
                elif stream in steps:
                    read |= _copy_steps(stream, sources, times, step_appenders[stream])
                if stream in chunked:
                    _copy_chunks(stream, sources, target, at[stream], check)
                else:
                    _copy_blocks(stream, sources, length, appenders[stream])
                at[stream] += length
            check()
    for appender in (*appenders.values(), *step_appenders.values()):
        appender.flush()


class _Appender:
    """Writing of small pieces to a dataset, one after the other, in large blocks."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self._at = self._held = 0
        self._pieces: list[np.ndarray] = []

    def append(self, piece: np.ndarray) -> None:
        self._pieces.append(piece)
        self._held += piece.nbytes
        if self._held >= _BLOCK // 4:
            self.flush()

    def flush(self) -> None:
        if self._pieces:
            block = self._pieces[0] if len(self._pieces) == 1 else np.concatenate(self._pieces)
            self.target[self._at : self._at + len(block)] = block
            self._at += len(block)
        self._pieces, self._held = [], 0


def _copy_steps(
    stream: Stream, sources: Sources, times: tuple[int, int], target: _Appender
) -> dict[tuple[int, int], np.ndarray]:
    """Copy steps; return them, if they are few, for streams that were recorded at the same steps."""
    source, (length, _) = _dataset(sources[0][1], stream, "step"), times
    many = _BLOCK // _STEP.itemsize
    block = np.empty(0, _STEP)
    for start in range(0, length, many):
        count = min(many, length - start)
        block = _read(source, np.empty(count, _STEP), (start,))
        target.append(block)
    return {times: block} if length <= many else {}


def _copy_chunks(stream: Stream, sources: Sources, target: Any, at: int, check: Callable[[], None]) -> None:
    """Copy compressed chunks without decompressing them; each holds one time of one slice."""
    for segment, file in sources:
        source, into = _dataset(file, stream, "values"), target.id
        offset = [at, *(0 for _ in source.shape[1:])]
        if stream.batched:
            offset[1] = max(segment.lo, 0)
        for place in product(*map(range, repeat(0), source.shape, target.chunks)):
            mask, data = source.read_direct_chunk(place)
            into.write_direct_chunk(tuple(map(add, place, offset)), data, mask)
        check()


def _copy_blocks(stream: Stream, sources: Sources, length: int, target: _Appender) -> None:
    """Copy small values, several times of all slices at once, so that writes are contiguous."""
    rest, dtype = stream.shape, np.dtype(stream.dtype)
    opened = [(segment, _dataset(file, stream, "values")) for segment, file in sources]
    many = max(1, _BLOCK // max(1, math.prod(rest) * dtype.itemsize))
    for start in range(0, length, many):
        count = min(many, length - start)
        block = np.empty((count, *rest), dtype)
        for segment, source in opened:
            origin = [start, *(0 for _ in rest)]
            if stream.batched and not segment.merged:
                part = np.empty((count, segment.hi - segment.lo, *rest[1:]), dtype)
                block[:, segment.lo : segment.hi] = _read(source, part, origin)
            else:
                _read(source, block, origin)
        target.append(block)


def _dataset(file: Any, stream: Stream, name: str) -> Any:
    """Open a dataset by h5py's low-level interface, which takes a tenth of the time."""
    return h5py.h5d.open(file, f"{stream.path}/{name}".encode())


def _read(source: Any, into: np.ndarray, origin: Sequence[int]) -> np.ndarray:
    """Read a block of a dataset; a selection takes time, and a whole dataset needs none."""
    if into.size:
        space, all_of_it = h5py.h5s.ALL, source.shape == into.shape
        if not all_of_it:
            space = source.get_space()
            space.select_hyperslab(tuple(origin), into.shape)
        source.read(h5py.h5s.ALL if all_of_it else h5py.h5s.create_simple(into.shape), space, into)
    return into


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a segment by h5py's low-level interface, which takes a third of the time."""
    try:
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)  # or an error that holds a dataset holds the file
        file = h5py.h5f.open(os.fsencode(path), h5py.h5f.ACC_RDONLY, access)
    except OSError as error:
        raise StorageError(f"{path}: this segment cannot be read: {error}") from error
    try:
        yield file
    finally:
        file.close()
