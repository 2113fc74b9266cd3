"""Segments: immutable files in `parts/`, each with what one rank recorded between two flushes."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from petabatch.errors import StorageError
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.containment import refuse_references, refuse_renamed
from petabatch.storage.damaged import opened
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import HDF5, PARTS, SEGMENT
from petabatch.variable import Stream

_COMPRESSED = 4096
"""Bytes per time (and slice) from which an array is compressed."""
_PLAIN_CHUNK = 1 << 18
"""Bytes of a chunk that is not compressed."""
_EVENTS = 1 << 15
"""Events of a chunk."""
_CHUNK_LIMIT = 1 << 24
"""Bytes of the largest chunk."""


class Record(Protocol):
    """What one stream has recorded."""

    def __init__(self, stream: Stream, steps: np.ndarray, values: np.ndarray, /) -> None: ...

    @property
    def stream(self) -> Stream:
        """The stream."""

    @property
    def steps(self) -> np.ndarray:
        """int64 `[n]`."""

    @property
    def values(self) -> np.ndarray:
        """`[n, slices of the rank, ...]` for batched streams, else `[n, ...]`."""


AnyRecord = TypeVar("AnyRecord", bound=Record)


@dataclass(frozen=True, order=True)
class Segment:
    """A file of `parts/`, as described by its name."""

    first: int
    last: int
    """Steps `first` to `last`, both included."""
    lo: int = -1
    hi: int = -1
    """Slices `lo` to `hi - 1` as one rank wrote them; negative when merged from the files of all ranks."""
    suffix: str = HDF5.suffix

    @property
    def merged(self) -> bool:
        """True when the file holds the recordings of all ranks."""
        return self.hi < 0

    def may_hold(self, stream: Stream) -> bool:
        """Return whether it has slices of the stream, where that has a batch axis."""
        return not stream.batched or self.merged or self.lo < self.hi

    @property
    def name(self) -> str:
        """File name."""
        slices = "" if self.merged else f"_slices_{self.lo:06d}-{self.hi:06d}"
        return f"steps_{self.first:012d}-{self.last:012d}{slices}{self.suffix}"

    @property
    def path(self) -> str:
        """Path below the run directory."""
        return f"{PARTS}/{self.name}"

    @classmethod
    def parse(cls, name: str) -> Segment | None:
        """Return the segment with this file name; None for other files."""
        match = re.fullmatch(SEGMENT, name)
        if match is None:
            return None
        *numbers, suffix = match.groups()
        first, last, lo, hi = (-1 if one is None else int(one) for one in numbers)
        return cls(first, last, lo, hi, suffix)


@dataclass(frozen=True)
class Summary:
    """The content of a segment, without its data."""

    flushes: int
    """Flushes merged into the file."""
    times: dict[str, tuple[int, int]]
    """Stream path to (number of times, checksum of the steps)."""


def write_segment(
    directory: RunDirectory,
    records: Sequence[Record],
    rank: int,
    first_step: int,
    last_step: int,
    lo: int,
    hi: int,
) -> tuple[str, Summary] | None:
    """Write what `rank` recorded in steps `first_step` to `last_step` of slices `lo` to `hi - 1`.

    Both steps are included, and the next segment starts at `last_step + 1`. Every rank with slices writes a
    segment at every flush, even an empty one; a rank without slices writes one only if it is rank 0, and
    otherwise returns None. Streams without a batch axis are the same on all ranks and are written by rank 0.
    Returns the name of the segment, and its summary.
    Raises StorageError when a record does not match its stream or the file cannot be written.
    """
    if lo == hi and rank != 0:
        return None
    records = [record for record in records if record.stream.batched or rank == 0]
    for record in records:
        _check(record, first_step, last_step, hi - lo)
    segment = Segment(first_step, last_step, lo, hi)
    path = directory.path / segment.path
    with new_hdf5(path, run_id=directory.run_id) as (file, _):
        for record in records:
            shape = (len(record.steps), *record.values.shape[1:])
            group = file.create_group(record.stream.path)
            create_steps(group, record.stream, len(record.steps))[...] = record.steps
            create_dataset(group, "values", record.stream, shape)[...] = record.values
        summary = Summary(1, {r.stream.path: (len(r.steps), checksum(r.steps)) for r in records})
        describe(file, segment, summary)
        file.attrs["rank"] = rank
    return segment.name, summary


def create_dataset(group: Any, name: str, stream: Stream, shape: tuple[int, ...]) -> Any:
    """Create the dataset of a stream: compressed chunks of one slice at one time, or larger plain chunks.

    All compressed datasets of a stream have the same chunks and filters, so they can be joined without
    decompression. Both kinds of chunks have an Adler-32, which HDF5 verifies.
    """
    if stream.events and 0 not in shape:
        return _create_events(group, name, stream.dtype, shape[0])
    if not compressed(stream) or 0 in shape:
        return create_plain(group, name, stream.dtype, shape)
    _, rest = _split(stream)
    size = np.dtype(stream.dtype).itemsize
    for axis in range(len(rest)):
        while int(np.prod(rest)) * size > _CHUNK_LIMIT and rest[axis] > 1:
            rest[axis] = -(-rest[axis] // 2)
    # codes are mostly zeros: a byte shuffle makes them larger and slower, a higher level gains little
    filters = {"compression_opts": 1} if stream.sparse else {"compression_opts": 4, "shuffle": True}
    chunks = (*(1,) * (len(shape) - len(rest)), *rest)
    return group.create_dataset(
        name, shape=shape, dtype=stream.dtype, chunks=chunks, compression="gzip", fillvalue=0, **filters
    )


def create_steps(group: Any, stream: Stream, times: int) -> Any:
    """Create the dataset of the steps of a stream in a segment."""
    if stream.events and times:
        return _create_events(group, "step", "int64", times)
    return create_plain(group, "step", "int64", (times,))


def _create_events(group: Any, name: str, dtype: str, count: int) -> Any:
    """Create a column of events: ascending, or of few values, so that it becomes small."""
    chunk = min(count, _EVENTS)
    return group.create_dataset(
        name,
        (count,),
        dtype,
        chunks=(chunk,),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
        fillvalue=0,
    )


def create_plain(group: Any, name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    """Create a dataset that is not compressed; its chunks have checksums.

    Stored by zlib, with Adler-32: the Fletcher-32 of zeros is 0, so that a chunk that became zero with its
    checksum would be whole.
    """
    if 0 in shape:
        return group.create_dataset(name, shape=shape, dtype=dtype)
    row = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
    chunks = (min(shape[0], max(1, _PLAIN_CHUNK // row)), *shape[1:])
    return group.create_dataset(
        name, shape=shape, dtype=dtype, chunks=chunks, compression="gzip", compression_opts=0, fillvalue=0
    )


def compressed(stream: Stream) -> bool:
    """Return whether values are compressed: all but small arrays."""
    _, rest = _split(stream)
    small = int(np.prod(rest)) * np.dtype(stream.dtype).itemsize < _COMPRESSED
    return bool(rest) and 0 not in rest and (stream.sparse or not small)


def in_chunks(stream: Stream) -> bool:
    """Return whether points keep an array as segments do: in compressed chunks, which are not very small."""
    return compressed(stream) and stream.nbytes // stream.shape[0] >= _COMPRESSED


def _split(stream: Stream) -> tuple[int, list[int]]:
    """Return the number of leading axes, time and batch, and the lengths of the others."""
    lead = 2 if stream.batched else 1
    return lead, list(stream.shape[lead - 1 :])


def describe(file: Any, segment: Segment, summary: Summary) -> None:
    """Write the root attributes of a segment."""
    file.attrs["kind"] = "segment"
    file.attrs["first_step"], file.attrs["last_step"] = segment.first, segment.last
    if not segment.merged:
        file.attrs["first_slice"], file.attrs["end_slice"] = segment.lo, segment.hi
    file.attrs["flushes"] = summary.flushes
    file.attrs["times"] = json.dumps(summary.times)


def read_summary(path: Path) -> Summary:
    """Return the summary of a segment.

    Raises StorageError, FormatError when it is not a segment, or DamagedError when it is not that of its
    name.
    """
    with opened(path, "segment") as file:
        refuse_renamed(path, file)
        refuse_references(file)
        times = {name: (n, crc) for name, (n, crc) in json.loads(file.attrs["times"]).items()}
        return Summary(int(file.attrs["flushes"]), times)


def checksum(steps: Any, block: int = 1 << 19) -> int:
    """Return the CRC-32 of an array or dataset of steps; streams with the same steps share one coordinate."""
    crc = 0
    for start in range(0, len(steps), block):
        crc = zlib.crc32(steps[start : start + block].astype("<i8").tobytes(), crc)
    return crc


def _check(record: Record, first: int, last: int, slices: int) -> None:
    stream, steps, values = record.stream, record.steps, record.values
    lead = (len(steps), slices) if stream.batched else (len(steps),)
    expected = (*lead, *stream.shape[1 if stream.batched else 0 :])
    wrong = ""
    if values.shape != expected or values.dtype != np.dtype(stream.dtype):
        wrong = f"found {values.dtype} {list(values.shape)}, expected {stream.dtype} {list(expected)}"
    elif steps.dtype != np.int64 or np.any(np.diff(steps) < (0 if stream.events else 1)):
        wrong = "its steps are not ascending int64 numbers"
    elif len(steps) and (steps[0] < first or steps[-1] > last):
        wrong = f"steps {steps[0]} to {steps[-1]} lie outside the segment's steps {first} to {last}"
    if wrong:
        raise StorageError(f"{stream.path}: {wrong}")
