"""The sink of a run in Zarr: ranks write chunks of their own, and rank 0 commits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from petabatch.errors import StorageError
from petabatch.parallel.comm import Comm
from petabatch.storage.directory import RunDirectory
from petabatch.storage.rows import find_rows
from petabatch.storage.segment import AnyRecord, Record, Segment
from petabatch.storage.segment import checksum as checksum_of_steps
from petabatch.storage.sink import RunSink, Share
from petabatch.storage.zarr3.chunks import checksum
from petabatch.storage.zarr3.commits import COMMIT, Array, Block, Commit, Run, along, commits_of, runs_of
from petabatch.variable import Stream


@dataclass
class Part:
    """What a rank has written."""

    first: int
    last: int
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    steps: dict[str, list[Run]] = field(default_factory=dict)
    blocks: dict[str, list[Block]] = field(default_factory=dict)


class Chunks(RunSink):
    """The chunks of a store that a rank writes: those whose first slice it has."""

    def __init__(self, directory: RunDirectory, share: Share, chunks: Mapping[str, tuple[int, ...]]) -> None:
        """`chunks` has the shape of those of each stream, by path."""
        super().__init__(directory, share)
        self._comm: Comm = share.comm
        self._lo, self._hi, self._batch = share.lo, share.hi, share.batch
        self._arrays = dict(_arrays(share.streams, chunks))
        self._ends: dict[tuple[str, int], tuple[int, int]] | None = None
        """Of each column the number of records and their checksum, up to the last flush."""
        self._bounds: list[tuple[int, int]] = []
        """The slices of each rank."""

    def shared(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """Return what was recorded of the slices in this rank's chunks; collective.

        Where the slices of two ranks meet inside of a chunk, the later rank sends its part of it.
        """
        if self._ends is None:
            bounds = self._comm.gather((self._lo, self._hi))
            self._bounds, self._ends = self._comm.broadcast((bounds, self._committed() if bounds else None))
        return [self._completed(one) if one.stream.batched else one for one in records]

    def put(self, records: Sequence[Record], first: int, last: int) -> Part:
        """Write the chunks of this rank; return what is in them."""
        assert self._ends is not None
        part = Part(first, last)
        for record in records:
            path, values = record.stream.path, record.values
            if not record.stream.batched and self._comm.rank > 0:
                continue
            part.times[path] = len(record.steps), checksum_of_steps(record.steps)
            if record.stream.events:
                place = along(record.stream)
                if place not in part.blocks:
                    part.blocks[place] = [self._write(place, 0, record.steps)]
            else:
                part.steps[path] = runs_of(record.steps)
            array = self._arrays[path].chunks(self._directory, path)
            lo = -(-self._lo // array.width) * array.width if record.stream.batched else 0
            mine = range(array.columns)
            if record.stream.batched:
                mine = range(lo // array.width, -(-self._hi // array.width))
            part.blocks[path] = []
            for column in mine:
                begin, end = array.slices(column)
                some = values[:, begin - lo : end - lo] if record.stream.batched else values
                part.blocks[path].append(self._write(path, column, some))
        return part

    def commit(self, parts: Sequence[Part | None]) -> None:
        """Write the commit of a flush: what ranks have written is part of the run from then on."""
        written = [part for part in parts if part is not None]
        if not written:
            return
        blocks = {
            path: [one for part in written for one in part.blocks.get(path, ())] for path in self._arrays
        }
        commit = Commit(
            1,
            {path: times for part in written for path, times in part.times.items()},
            self._arrays,
            {path: runs for part in written for path, runs in part.steps.items()},
            {path: found for path, found in blocks.items() if found},
        )
        for path, found in commit.blocks.items():
            if len(found) != self._arrays[path].chunks(self._directory, path).columns:
                raise StorageError(f"{path}: what ranks have written does not cover the batch once")
        segment = Segment(written[0].first, written[0].last, suffix=COMMIT)
        commit.save(self._directory, segment)
        self._directory.summaries[segment.name] = commit

    def drop_after(self, step: int) -> None:
        """Remove commits and checkpoints of later steps, and the chunks of which no record is left."""
        super().drop_after(step)
        self._ends = None
        ends = self._committed()
        for path, array in self._arrays.items():
            array.chunks(self._directory, path).drop_from(ends.get((path, 0), (0, 0))[0])
        for leftover in self._directory.run_file.rglob(".*.tmp"):
            leftover.unlink(missing_ok=True)

    def _committed(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return what commits say of the end of each column; on rank 0."""
        rows, _ = find_rows(self._directory, self._batch)
        return {
            (path, block.column): (block.at + block.many, block.after)
            for commit in commits_of(rows)
            for path, blocks in commit.blocks.items()
            for block in blocks
        }

    def _write(self, path: str, column: int, values: np.ndarray) -> Block:
        assert self._ends is not None
        at, before = self._ends.get((path, column), (0, 0))
        self._arrays[path].chunks(self._directory, path).put(at, column, values)
        after = checksum(values, before)
        self._ends[path, column] = at + len(values), after
        return Block(at, len(values), column, before, after)

    def _completed(self, record: AnyRecord) -> AnyRecord:
        """Return a record with the slices in this rank's chunks."""
        width, lo, hi = self._arrays[record.stream.path].chunk[1], self._lo, self._hi
        begin, end = (min(-(-one // width) * width, self._batch) for one in (lo, hi))
        values, sent, received = record.values, dict[int, np.ndarray](), dict[int, np.ndarray]()
        if begin > lo:
            head = lo // width * width
            owner = next(rank for rank, (first, last) in enumerate(self._bounds) if first <= head < last)
            sent[owner] = np.ascontiguousarray(values[:, : min(begin, hi) - lo])
        whole = [values[:, begin - lo :]]
        if begin < hi:
            for rank, (first, last) in enumerate(self._bounds):
                if rank != self._comm.rank and hi <= first < end:
                    shape = (len(record.steps), min(last, end) - first, *values.shape[2:])
                    received[rank] = np.empty(shape, values.dtype)
                    whole.append(received[rank])
        if not sent and not received:
            return record
        self._comm.exchange(sent, received, tag=0)
        return type(record)(record.stream, record.steps, np.concatenate(whole, axis=1))


def _arrays(streams: Sequence[Stream], chunks: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Array]]:
    """Yield the arrays that streams are written to."""
    for stream in streams:
        yield stream.path, Array(stream.dtype, stream.shape, chunks[stream.path])
        if stream.events:
            yield along(stream), Array("int64", (), chunks[stream.path])
