"""The writer of segments of points: a file for each commit, and files merged from many."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.storage import atomic
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import POINTS
from petabatch.storage.point_rows import Layout, Rows, joined_events
from petabatch.storage.points import COMMITS, FAILED, KIND, VALUES, Name, read
from petabatch.storage.segment import create_dataset, in_chunks

_FAN = 32
"""Files of similar size that are merged: each value is copied about log32(commits) times, and of 10^5 commits
some 130 files are left."""
_CHUNK = 1 << 18
"""Bytes of a chunk, which has a checksum of its own."""
_EVENTS = 1 << 15
"""Events of a chunk."""
_LARGE = 1 << 28
"""Bytes of points that are not merged any more: so large, files are few."""


class PointsWriter:
    """The files of a process, one for each commit of finished points."""

    def __init__(
        self, directory: RunDirectory, first: Name, layout: Layout, software: Mapping[str, Any] | None = None
    ) -> None:
        """Begin with the file `first`."""
        self._directory, self._layout, self._software = directory, layout, software or {}
        self._next, self._written = first, dict[Name, int]()
        """Files with their numbers of points."""
        self._has_common = False

    def commit(self, rows: Rows) -> None:
        """Write finished points, durably; raises StorageError if they cannot be written."""
        new = {} if self._has_common else rows.common
        with self._new(self._next, rows.why) as (file, check):
            file[VALUES], file[FAILED], file[COMMITS] = rows.values, rows.failed, [len(rows)]
            for path, values in rows.columns.items():
                self._dataset(file, path, len(rows))[...] = values
                check()
            self._write_others(file, rows.events, new)
        self._has_common = self._has_common or bool(new)
        self._written[self._next] = len(rows)
        self._next = replace(self._next, first=self._next.first + 1, last=self._next.last + 1)
        while (few := self._mergeable()) is not None:
            self._merge(few)

    def _write_others(
        self, file: Any, events: Mapping[str, np.ndarray], common: Mapping[str, np.ndarray]
    ) -> None:
        for folder, found in events.items():
            filters = {
                "chunks": (min(len(found), _EVENTS),),
                "compression": 1,
                "shuffle": True,
                "fletcher32": True,
            }
            file.create_dataset(f"events/{folder}", data=found, **(filters if len(found) else {}))
        for path, values in common.items():
            file[f"common/{path}"] = values

    def _dataset(self, file: Any, path: str, count: int) -> Any:
        """Create the dataset of what `count` points have recorded, with a checksum for each of its chunks."""
        stream, shape = self._layout.known[path], self._layout.recorded[path]
        if in_chunks(stream):
            return create_dataset(file, f"recorded/{path}", stream, (count, *shape))
        time = math.prod(shape[1:]) * np.dtype(stream.dtype).itemsize
        times = min(shape[0], max(1, _CHUNK // time))
        chunk = (max(1, min(count, _CHUNK // (times * time))), times, *shape[1:])
        return file.create_dataset(
            f"recorded/{path}", (count, *shape), stream.dtype, chunks=chunk, fletcher32=True
        )

    @contextmanager
    def _new(self, name: Name, why: Mapping[int, str]) -> Iterator[tuple[Any, Callable[[], None]]]:
        path = self._directory.path / POINTS / str(name)
        with new_hdf5(path, _rename, self._directory.run_id) as (file, check):
            file.attrs["kind"], file.attrs["name"] = KIND, str(name)
            about = {"layout": self._layout.table, "software": dict(self._software), "why": dict(why)}
            file.attrs["about"] = json.dumps(about)
            yield file, check

    def _mergeable(self) -> Sequence[Name] | None:
        """Return the newest files if there are enough of one size, none of them large."""
        few = list(self._written)[-_FAN:]
        nbytes = self._layout.nbytes * sum(self._written[one] for one in few)
        alike = len(few) == _FAN and len({one.last - one.first for one in few}) == 1
        return few if alike and nbytes < _LARGE else None

    def _merge(self, few: Sequence[Name]) -> None:
        files = [read(self._directory, one) for one in few]
        ends = np.cumsum([len(one.values) for one in files])
        begins = [0, *ends[:-1].tolist()]
        why = {
            begin + number: text
            for begin, one in zip(begins, files, strict=True)
            for number, text in one.why.items()
        }
        merged = replace(few[0], last=few[-1].last)
        with self._new(merged, why) as (file, check):
            for field in (VALUES, FAILED):
                file[field] = np.concatenate([getattr(one, field) for one in files])
            file[COMMITS] = np.concatenate([one.commits for one in files])
            for path in self._layout.recorded:
                target = self._dataset(file, path, int(ends[-1]))
                for begin, end, one in zip(begins, ends, files, strict=True):
                    target[begin:end] = one.recorded(path, np.arange(end - begin))
                check()
            events = joined_events([one.events for one in files], begins)
            self._write_others(file, events, files[0].common)
        for old in few:
            (self._directory.path / POINTS / str(old)).unlink(missing_ok=True)
            del self._written[old]
        self._written[merged] = int(ends[-1])


def _rename(temporary: Path, path: Path) -> None:
    """Give a file of points its name, unless another process of the same chunk and attempt has one."""
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    atomic.replace(temporary, path)
