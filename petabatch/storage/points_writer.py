"""The writer of segments of points: a file for each commit, and files merged from many."""

from __future__ import annotations

import errno
import json
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
from petabatch.storage.points import COMMITS, FAILED, KIND, VALUES, Layout, Name, read

_FAN = 32
"""Files of similar size that are merged: each value is copied about log32(commits) times, and of 10^5 commits
some 130 files are left."""
_CHUNK = 1 << 18
"""Bytes of a chunk, which has a checksum of its own."""


class PointsWriter:
    """The files of a process, one for each commit of finished points."""

    def __init__(
        self, directory: RunDirectory, first: Name, layout: Layout, software: Mapping[str, Any] | None = None
    ) -> None:
        """Begin with the file `first`."""
        self._directory, self._layout, self._software = directory, layout, software or {}
        self._next, self._written = first, list[Name]()
        self._has_common = False

    def commit(
        self, rows: np.ndarray, failures: Mapping[int, str], common: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Write finished points, durably; raises StorageError if they cannot be written.

        `failures` say why points failed, by the number of their row, `common` is what was recorded once for
        all points, by path.
        """
        new = {} if self._has_common else common or {}
        with self._new(self._next, failures) as (file, check):
            for field in (VALUES, FAILED):
                file[field] = rows[field]
            file[COMMITS] = [len(rows)]
            for path in self._layout.recorded:
                _dataset(file, path, self._layout, len(rows))[...] = rows[path]
                check()
            for path, values in new.items():
                file[f"common/{path}"] = values
        self._has_common = self._has_common or bool(new)
        self._written.append(self._next)
        self._next = replace(self._next, first=self._next.first + 1, last=self._next.last + 1)
        while (few := self._mergeable()) is not None:
            self._merge(few)

    @contextmanager
    def _new(self, name: Name, why: Mapping[int, str]) -> Iterator[tuple[Any, Callable[[], None]]]:
        path = self._directory.path / POINTS / str(name)
        with new_hdf5(path, _rename, self._directory.run_id) as (file, check):
            file.attrs["kind"], file.attrs["name"] = KIND, str(name)
            about = {"layout": self._layout.table, "software": dict(self._software), "why": dict(why)}
            file.attrs["about"] = json.dumps(about)
            yield file, check

    def _mergeable(self) -> Sequence[Name] | None:
        """Return the newest files if there are enough of one size."""
        few = self._written[-_FAN:]
        return few if len(few) == _FAN and len({one.last - one.first for one in few}) == 1 else None

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
                target = _dataset(file, path, self._layout, int(ends[-1]))
                for begin, end, one in zip(begins, ends, files, strict=True):
                    target[begin:end] = one.recorded(path, np.arange(end - begin))
                check()
            for path, values in files[0].common.items():
                file[f"common/{path}"] = values
        for old in few:
            (self._directory.path / POINTS / str(old)).unlink(missing_ok=True)
        self._written[-len(few) :] = [merged]


def _rename(temporary: Path, path: Path) -> None:
    """Give a file of points its name, unless another process of the same chunk and attempt has one."""
    if path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    atomic.replace(temporary, path)


def _dataset(file: Any, path: str, layout: Layout, count: int) -> Any:
    """Create the dataset of what `count` points have recorded, with a checksum for each of its chunks."""
    one = layout.recorded[path]
    chunk = max(1, min(count, _CHUNK // max(1, one.itemsize)))
    return file.create_dataset(
        f"recorded/{path}", (count, *one.shape), one.base, chunks=(chunk, *one.shape), fletcher32=True
    )
