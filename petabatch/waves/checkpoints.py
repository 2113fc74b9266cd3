"""Waves on disk: checkpoints inside long ones, commits of those that have ended, the end of a sweep."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.engine.failure import Failure
from petabatch.errors import StorageError
from petabatch.logs import log
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network
from petabatch.storage import wave
from petabatch.storage.checkpoint import save_checkpoint
from petabatch.storage.checkpoint_part import Part
from petabatch.storage.directory import RunDirectory
from petabatch.storage.point_rows import Layout, Room, Rows
from petabatch.storage.points_writer import PointsWriter
from petabatch.storage.wave import SavedWave
from petabatch.waves.finished import Points

_EVERY = 60.0
"""Seconds of a wave between two checkpoints."""
ON_DISK = 1 << 30
"""Bytes that the points of a wave record, from which on they are on disk until the wave ends."""
_COMMIT = 1.0
"""Seconds between two commits, unless a wave takes longer."""
_PAUSE = 50
"""Between two checkpoints at least this many times what the last one took."""


@dataclass
class Committing:
    """Finished waves that are not yet committed."""

    writer: PointsWriter
    nbytes: int
    """Of what a point records."""
    committed: Callable[[], None]
    """Called when all that was added is committed."""
    _waves: list[Rows] = field(default_factory=list)
    _last: float = field(default_factory=time.monotonic)

    def __enter__(self) -> Committing:
        return self

    def __exit__(self, *error: object) -> None:
        self.commit()

    def add(self, wave: Rows) -> bool:
        """Take over a wave; return whether all are committed now."""
        self._waves.append(wave)
        if not self._large and time.monotonic() - self._last < _COMMIT:
            return False
        self.commit()
        return True

    @property
    def _large(self) -> bool:
        return self.nbytes * sum(map(len, self._waves)) > ON_DISK

    def commit(self) -> None:
        """Write all to a file of points; what the last wave records may be on disk, and stays apart then."""
        if not self._waves:
            return
        *before, last = self._waves
        for rows in (before, [last]) if before and self._large else (self._waves,):
            self.writer.commit(Rows.joined(rows))
        self._waves, self._last = [], time.monotonic()
        self.committed()


@dataclass(frozen=True)
class End:
    """The state at the end of a wave."""

    numbers: Sequence[int]
    """Its slices in the sweep."""
    step: int
    arrays: Mapping[str, np.ndarray]
    batched: set[str]
    failures: Mapping[int, Failure]
    """Why slices have stopped, by their place in the wave."""


class WaveCheckpoints:
    """The checkpoints of the waves of a process, one after the other in its file."""

    def __init__(
        self,
        path: Path,
        layout: Layout,
        software: Mapping[str, Any],
        found: Sequence[tuple[Path, np.ndarray]],
        keeps_ends: bool = False,
    ) -> None:
        """`found` are files of earlier processes, with the values of their points."""
        self.keeps_ends, self.ends = keeps_ends, list[End]()
        """Whether the states at the ends of waves are kept, from which other runs can start, and these."""
        self._path, self._layout, self._software = path, layout, software
        self._found = list(found)
        self._under_way: list[Path] = []
        """Files with points of the wave that was begun last."""
        self._done: list[Path] = []
        self._is_saved = False
        self._due = np.inf

    def room(self, nbytes: int) -> Room:
        """Return what gives room for what a wave records: in memory, or where it would be much in a file."""
        return np.zeros if nbytes <= ON_DISK else partial(_on_disk, self._path.parent)

    def begin(self, points: Points) -> SavedWave | None:
        """Begin a wave; return the state that it goes on from, None at step 0."""
        self._due = time.monotonic() + _EVERY
        mine = [path for path, values in self._found if np.array_equal(values, points.values)]
        self._under_way += [self._path, *mine]
        self._is_saved = False
        for path in sorted(mine, key=wave.step_of, reverse=True):
            try:
                return wave.load(path)
            except StorageError as error:
                log.warning("%s; its points are computed from step 0", error)
        return None

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() > self._due

    def save(self, saved: SavedWave) -> None:
        """Replace the checkpoint by one of the wave under way; raises StorageError."""
        began = time.monotonic()
        wave.save(self._path, self._layout, self._software, saved)
        now = time.monotonic()
        self._due, self._is_saved = now + max(_EVERY, _PAUSE * (now - began)), True

    def end(self) -> None:
        """End the wave that was begun last; its points are not yet committed."""
        self._done += self._under_way
        self._under_way, self._is_saved, self._due = [], False, np.inf

    def remove(self) -> None:
        """Remove those of waves that have ended; their points are committed."""
        for path in self._done:
            if path != self._path or not self._is_saved:
                path.unlink(missing_ok=True)
        self._done = []


def _on_disk(folder: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array of zeros in a file without a name; raises StorageError if there is no room for it."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, math.prod(shape) * np.dtype(dtype).itemsize)
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError as error:
        raise StorageError(f"{folder}: what points record cannot be written: {error.strerror}") from error


def left_under_way(
    root: Path, layout: Layout, suits: Callable[[Mapping[str, Any]], bool], points: Points, left: Points
) -> list[tuple[Path, np.ndarray]]:
    """Return the saved waves whose points are all `left`, with their values, if their software `suits`.

    Others that have `points` of this process alone are of no use, and removed.
    """
    paths = wave.waves_of(root)
    if not paths:
        return []
    known, wanted = _rows(points.values), _rows(left.values)
    found = []
    for path in paths:
        try:
            saved = wave.points_of(path, layout)
        except (StorageError, OSError, LookupError) as error:
            log.warning("%s; its points are computed from step 0", error)
            continue
        if saved is None:
            continue
        values, software = saved
        if _rows(values) <= wanted and suits(software):
            found.append((path, values))
        elif _rows(values) <= known:
            path.unlink(missing_ok=True)
    return found


def _rows(values: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.ascontiguousarray(values)}


def save_end(directory: RunDirectory, network: Network, ends: Sequence[End], leaders: Comm) -> bool:
    """Write the state of all slices of a sweep, if each rank has at most one wave of them; collective.

    Return whether it is written.
    """
    ranks = leaders.gather([(one.numbers[0], one.numbers[-1] + 1, len(one.numbers)) for one in ends]) or ()
    found = sorted(span for spans in ranks for span in spans)
    edges = [0, *(end for _, end, _ in found)]
    covers = [begin for begin, *_ in found] == edges[:-1] and edges[-1] == network.batch
    in_one = all(len(spans) <= 1 for spans in ranks) and all(end - begin == n for begin, end, n in found)
    begins: list[int] | None = leaders.broadcast(edges[:-1] if covers and in_one else None)
    if begins is None:
        return False
    mine = ends[0] if ends else None
    writers = leaders.split(int(mine is not None))
    if mine is None:
        return True

    def in_order(part: Part) -> Sequence[Part] | None:
        parts = writers.gather(part)
        return None if parts is None else sorted(parts, key=lambda one: one.lo)

    failed = [[mine.numbers[place], one.why, one.step] for place, one in sorted(mine.failures.items())]
    everywhere = sorted(one for ranks in writers.gather(failed) or () for one in ranks)
    save_checkpoint(
        directory,
        mine.step,
        mine.arrays,
        mine.batched,
        {"step": mine.step, **({"failed": everywhere} if everywhere else {})},
        lo=mine.numbers[0],
        hi=mine.numbers[-1] + 1,
        batch=network.batch,
        rank=begins.index(mine.numbers[0]),  # ranks of a resumed sweep may have their waves in another order
        gather=in_order,
        keep=network.checkpoint.keep,
    )
    return True
