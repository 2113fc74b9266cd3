"""Segments of points: what the finished points of a sweep have recorded, in sealed files of `points/`.

Each process writes files of its own, one for each commit, with names that no other process uses: hosts need
no locks. Many small ones are merged into larger ones, as segments of steps are; a file whose commits another
one has is superseded, since the process may have been killed before it removed it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product, repeat
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.errors import DamagedError
from petabatch.storage import seal
from petabatch.storage.atomic import remove
from petabatch.storage.containment import refuse_references
from petabatch.storage.damaged import opened
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import CHECKPOINTS, LOST, POINTS, POINTS_FILE
from petabatch.storage.lost import put_aside
from petabatch.storage.point_rows import POINT, Layout

KIND = "points"
VALUES, FAILED = "values", "failed"
"""Datasets with the values of each point, and the step at which it failed, -1 if it did not."""
COMMITS = "commits"
"""Dataset with the number of points of each commit."""


@dataclass(frozen=True)
class Name:
    """What a file of points is called."""

    chunk: int
    chunks: int
    attempt: int
    """Number of the process that has made points of this chunk."""
    first: int
    last: int
    """The commits of the process that it has, both included."""

    @property
    def stem(self) -> str:
        """What is common to the files of a process."""
        return f"{self.chunk:0{len(str(self.chunks))}}-of-{self.chunks}_{self.attempt}"

    def __str__(self) -> str:
        merged = f"-{self.last:06}" if self.last > self.first else ""
        return f"{self.stem}_{self.first:06}{merged}.h5"

    @classmethod
    def parse(cls, name: str) -> Name | None:
        """Return what a file name says; None for other files."""
        found = re.fullmatch(POINTS_FILE, name)
        if found is None:
            return None
        chunk, chunks, attempt, first, last = (int(one or found[4]) for one in found.groups())
        return cls(chunk, chunks, attempt, first, last)

    def supersedes(self, other: Name) -> bool:
        """Return whether it has all commits of another file of the same process, and more."""
        mine = replace(self, first=other.first, last=other.last) == other
        return mine and self != other and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class PointsFile:
    """A file of points, without what they recorded."""

    path: Path
    layout: Layout
    software: Mapping[str, Any]
    """Versions of what made the points, as in the provenance of a run."""
    values: np.ndarray
    """`[points, keys]`."""
    failed: np.ndarray
    """The step at which each failed, -1 if it did not, `[points]`."""
    why: Mapping[int, str]
    """Why points failed, by their number in the file."""
    commits: np.ndarray
    """How many points each commit had."""

    def recorded(self, path: str, points: np.ndarray) -> np.ndarray:
        """Return what points, by ascending number in the file, recorded, `[points, times, batch, ...]`.

        The same one may be asked for twice.
        """
        first, last = int(points[0]), int(points[-1]) + 1
        with self._opened() as (file, begin):
            found = np.asarray(file[f"recorded/{path}"][begin + first : begin + last])
        return found if np.array_equal(points, np.arange(first, last)) else found[points - first]

    def blocks(self, path: str, rows: range, times: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield what points recorded, at most so many `times` at once, with the number of the first."""
        with self._opened() as (file, begin):
            source = file[f"recorded/{path}"]
            for at in range(0, source.shape[1], times):
                yield at, source[begin + rows.start : begin + rows.stop, at : at + times]

    def chunks(self, path: str, rows: range) -> Iterator[tuple[tuple[int, ...], int, bytes]]:
        """Yield what points recorded as it is compressed: chunks of a time of a slice, by their places."""
        with self._opened() as (file, begin):
            source = file[f"recorded/{path}"]
            others = map(range, repeat(0), source.shape[1:], source.chunks[1:])
            for row, *rest in product(rows, *others):
                yield (row, *rest), *source.id.read_direct_chunk((begin + row, *rest))

    @property
    def events(self) -> dict[str, np.ndarray]:
        """The events of all points, by folder."""
        with self._opened() as (file, begin):
            found = {folder: np.asarray(file[f"events/{folder}"][()]) for folder in self.layout.events}
        for folder, events in found.items():
            events[POINT] -= begin
            found[folder] = events[(events[POINT] >= 0) & (events[POINT] < len(self.values))]
        return found

    @property
    def common(self) -> dict[str, np.ndarray]:
        """What was recorded once for all points, by path; the first file of each process has it."""
        with self._opened() as (file, _):
            return arrays_in(file, "common")

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, int]]:
        """Open the file, or the one that it was merged into since it was read; yield its first point there.

        Raises DamagedError.
        """
        folder, mine = self.path.parent, Name.parse(self.path.name)
        assert mine is not None
        name = mine
        with ExitStack() as stack:
            while True:
                try:
                    file = stack.enter_context(opened(folder / str(name), KIND))
                    break
                except DamagedError:
                    merged = [one for one in names_of(folder.parent) if one.supersedes(mine)]
                    if (folder / str(name)).exists() or not merged:
                        raise
                    (name,) = merged
            yield file, int(file[COMMITS][: mine.first - name.first].sum())


def datasets_in(file: Any, name: str) -> dict[str, Any]:
    """Return the datasets below a group, by path; nothing where there is no such group."""
    found: dict[str, Any] = {}
    if name in file:
        file[name].visititems(
            lambda path, item: found.update({path: item}) if isinstance(item, h5py.Dataset) else None
        )
    return found


def arrays_in(file: Any, name: str) -> dict[str, np.ndarray]:
    """Return what the datasets below a group hold."""
    return {path: item[()] for path, item in datasets_in(file, name).items()}


class PointsFiles:
    """The files of points of a run directory; those that were read once are not read again."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory, self._known = directory, dict[Name, PointsFile]()

    def read(self) -> list[PointsFile]:
        """Return the files that there are now; raises DamagedError where one is not as it was written.

        Other processes may write, merge and remove files meanwhile.
        """
        while True:
            names = names_of(self._directory.path)
            self._known = {name: one for name, one in self._known.items() if name in names}
            for name in names:
                if name in self._known:
                    continue
                try:
                    self._known[name] = read(self._directory, name)
                except DamagedError:
                    if (self._directory.path / POINTS / str(name)).exists():
                        raise
                    break  # it was merged into another one
            else:
                return [self._known[name] for name in names]


def names_of(root: Path) -> list[Name]:
    """Return the names of the files of points in a run directory, but for superseded ones, in order."""
    found = (Name.parse(path.name) for path in (root / POINTS).glob("*.h5"))
    return _latest(one for one in found if one is not None)


def _latest(names: Iterable[Name]) -> list[Name]:
    """Return names, but for superseded ones, in order."""
    kept: list[Name] = []
    for one in sorted(names, key=lambda one: (one.chunk, one.chunks, one.attempt, one.first, -one.last)):
        if not kept or not kept[-1].supersedes(one):  # the widest comes first
            kept.append(one)
    return kept


def expected_names(root: Path, named: Iterable[str]) -> list[Name]:
    """Return the names of the files of points, and of those `named` of which no file has the commits."""
    known = (Name.parse(name) for name in named)
    return _latest({*names_of(root), *(one for one in known if one is not None)})


def new_name(root: Path, chunk: int, chunks: int) -> Name:
    """Return the name of the first file of a process that makes chunk `chunk` of `chunks`, from 1.

    Earlier processes have other attempts, also where they were killed within their first wave.
    """
    names = (path.name for folder in (POINTS, CHECKPOINTS) for path in (root / folder).glob("*"))
    found = (re.match(rf"\.?0*{chunk}-of-{chunks}_(\d+)", name) for name in names)
    taken = [int(one[1]) for one in found if one is not None]
    return Name(chunk, chunks, max(taken, default=0) + 1, 0, 0)


def read(directory: RunDirectory, name: Name, contents: bool = True) -> PointsFile:
    """Return what a file holds; raises DamagedError if it is not what was written, FormatError for others.

    Without `contents`, what the points recorded is not verified.
    """
    path = directory.path / POINTS / str(name)
    seal.verify(directory.path, f"{POINTS}/{name}", contents)
    with opened(path, KIND) as file:
        refuse_references(file)
        if file.attrs["name"] != str(name):  # which a seal does not cover
            raise DamagedError(f"{path}: this file is damaged: its name was {file.attrs['name']}")
        about = json.loads(file.attrs["about"])
        why = {int(number): str(text) for number, text in about["why"].items()}
        layout = Layout.of(about["layout"])
        values, failed, commits = (file[field][()] for field in (VALUES, FAILED, COMMITS))
        return PointsFile(path, layout, about["software"], values, failed, why, commits)


def lose_damaged(directory: RunDirectory) -> list[str]:
    """Take damaged files out of a run, whose points are not finished then; return their names."""
    lost = []
    for name in names_of(directory.path):
        try:
            read(directory, name)
        except DamagedError:
            put_aside(directory.path / POINTS / str(name))
            lost.append(f"{POINTS}/{name}")
    return lost


def drop_lost(directory: RunDirectory) -> None:
    """Remove what is left of files that were taken out of a run, since all points are finished again."""
    for path in (directory.path / POINTS).glob(f"*{LOST}"):
        remove(path)


def drop_superseded(directory: RunDirectory) -> None:
    """Remove files that a killed process has merged; called by a process that has claimed the run alone.

    They stay where the merged file is damaged: their points are finished without it.
    """
    found = (Name.parse(path.name) for path in (directory.path / POINTS).glob("*.h5"))
    names = [one for one in found if one is not None]
    for wide in _latest(names):
        if old := [one for one in names if wide.supersedes(one)]:
            with suppress(DamagedError):
                read(directory, wide)
                for one in old:
                    remove(directory.path / POINTS / str(one))
