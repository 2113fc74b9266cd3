"""Commits: the segments of a run in Zarr, which say what its ranks have written to chunks in some steps.

A commit is what a seal is for a segment in HDF5: a sealed file of `parts/`, with a checksum of all values of
each column of chunks. What no commit names is no part of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from petabatch.errors import DamagedError
from petabatch.storage import FORMAT
from petabatch.storage.damaged import naming_damage
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import OUTPUTS, PARTS
from petabatch.storage.rows import Row
from petabatch.storage.seal import read_json
from petabatch.storage.segment import Segment, Summary
from petabatch.storage.zarr3.chunks import Chunked, checksum
from petabatch.variable import Stream

COMMIT = OUTPUTS["zarr"].suffix


class Array(NamedTuple):
    """An array that grows with time."""

    dtype: str
    shape: tuple[int, ...]
    """That of one record."""
    chunk: tuple[int, ...]

    def chunks(self, directory: RunDirectory, path: str) -> Chunked:
        """Return it as its chunks."""
        return Chunked(directory.run_file / path, self.dtype, self.shape, self.chunk)


class Block(NamedTuple):
    """Records that were written to a column of chunks."""

    at: int
    many: int
    column: int
    before: int
    """CRC-32 of all values of the column before them."""
    after: int
    """The same with them."""


class Run(NamedTuple):
    """Steps that follow each other with a period."""

    first: int
    many: int
    period: int

    @property
    def steps(self) -> np.ndarray:
        """All of them."""
        return self.first + self.period * np.arange(self.many)


@dataclass(frozen=True)
class Commit(Summary):
    """What ranks have recorded in some steps, without the values."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    """All that grow with time, by path; also those of which nothing was recorded."""
    steps: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    """The steps of each stream, by path, but for those of events, which are an array."""
    blocks: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    """What was written, by the path of the array."""

    def steps_of(self, stream: Stream) -> np.ndarray:
        """Return the steps of a stream."""
        runs = [run.steps for run in self.steps.get(stream.path, ())]
        return np.concatenate([np.zeros(0, np.int64), *runs])

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return sum(
            block.many * int(np.prod(self.arrays[path].shape)) * np.dtype(self.arrays[path].dtype).itemsize
            for path, blocks in self.blocks.items()
            for block in blocks
            if block.column == 0
        )

    def save(self, directory: RunDirectory, segment: Segment) -> None:
        """Write it; from then on it is part of the run."""
        about = {
            "petabatch_format": FORMAT,
            "kind": "segment",
            "first_step": segment.first,
            "last_step": segment.last,
        }
        directory.write(segment.path, {**about, **asdict(self)})


def runs_of(steps: np.ndarray) -> list[Run]:
    """Return ascending steps as few runs."""
    found: list[Run] = []
    begin = 0
    while begin < len(steps):
        period = int(steps[begin + 1] - steps[begin]) if begin + 1 < len(steps) else 1
        differing = np.flatnonzero(np.diff(steps[begin:]) != period)
        end = begin + int(differing[0]) + 1 if len(differing) else len(steps)
        found.append(Run(int(steps[begin]), end - begin, period))
        begin = end
    return found


def read_commit(path: Path) -> Commit:
    """Return a commit; raises DamagedError when it is not that of its name. Its seal is not verified."""
    with naming_damage(path):
        table = read_json(path)
        segment = Segment.parse(path.name)
        if segment is None or (segment.first, segment.last) != (table["first_step"], table["last_step"]):
            raise DamagedError(f"{path}: this file is damaged: it has other steps than its name")
        return Commit(
            int(table["flushes"]),
            {name: (n, crc) for name, (n, crc) in table["times"].items()},
            {name: Array(one[0], tuple(one[1]), tuple(one[2])) for name, one in table["arrays"].items()},
            {name: [Run(*run) for run in runs] for name, runs in table["steps"].items()},
            {name: [Block(*block) for block in blocks] for name, blocks in table["blocks"].items()},
        )


def check_chunks(directory: RunDirectory, segment: Segment) -> None:
    """Raise DamagedError unless the chunks hold what a commit says."""
    commit = read_commit(directory.path / segment.path)
    for path, blocks in commit.blocks.items():
        array = commit.arrays[path].chunks(directory, path)
        for one in blocks:
            if array.checksum(one.at, one.many, one.column, one.before) != one.after:
                row = one.at // array.chunk[0]
                raise DamagedError(
                    f"{array.file(row, one.column)}: this chunk is damaged: it has other values than "
                    f"{PARTS}/{segment.name} says"
                )


def along(stream: Stream) -> str:
    """Return the path of the steps of events."""
    return f"{stream.path.rpartition('/')[0]}/step"


def commits_of(rows: Sequence[Row]) -> list[Commit]:
    """Return the commits of rows of segments, of which each has one."""
    return [one for row in rows for one in row.summaries if isinstance(one, Commit)]


def merged(commits: Sequence[Commit]) -> Commit:
    """Return commits that follow each other as one."""
    times, steps, blocks = dict[str, tuple[int, int]](), dict[str, list[Run]](), dict[str, list[Block]]()
    for path in {path: None for one in commits for path in one.times}:
        runs = [run.steps for one in commits for run in one.steps.get(path, ())]
        counts = [one.times[path] for one in commits if path in one.times]
        if runs:
            joined = np.concatenate(runs)
            steps[path], times[path] = runs_of(joined), (len(joined), checksum(joined))
        else:  # the steps of events are an array, whose checksum tells as much
            times[path] = sum(n for n, _ in counts), hash(tuple(counts)) & 0xFFFFFFFF
    for path in {path: None for one in commits for path in one.blocks}:
        parts = sorted(
            (block for one in commits for block in one.blocks.get(path, ())),
            key=lambda block: (block.column, block.at),
        )
        blocks[path] = []
        for column, few in groupby(parts, key=lambda block: block.column):
            begin, *_ = mine = list(few)
            many = sum(one.many for one in mine)
            blocks[path].append(Block(begin.at, many, column, begin.before, mine[-1].after))
    return Commit(sum(one.flushes for one in commits), times, commits[-1].arrays, steps, blocks)
