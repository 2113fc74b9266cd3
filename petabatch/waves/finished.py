"""The finished points of a sweep: which of its points files have, by their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petabatch.report.lines import finished_of
from petabatch.storage.point_rows import POINT, Layout, with_places
from petabatch.storage.points import PointsFile


@dataclass(frozen=True)
class Points:
    """Points with their numbers in a sweep, and their values `[points, keys]`."""

    numbers: np.ndarray
    paths: tuple[str, ...]
    values: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, columns: Mapping[str, np.ndarray]) -> Points:
        """Return points with their values by key path."""
        values = np.empty((len(numbers), len(columns)))
        for at, column in enumerate(columns.values()):
            values[:, at] = column
        return cls(numbers, tuple(columns), values)

    def taken(self, which: np.ndarray) -> Points:
        """Return some of the points, by an index or a mask."""
        return Points(self.numbers[which], self.paths, self.values[which])

    @cached_property
    def first(self) -> np.ndarray:
        """Indices of the points without an earlier one of the same values."""
        return np.sort(np.unique(_identity(self.values), return_index=True)[1])


@dataclass(frozen=True)
class Counts:
    """How many points of a sweep, or slices of a pool, are finished."""

    finished: int
    failed: int
    all: int
    what: str
    """What a point is called."""

    def __str__(self) -> str:
        return finished_of(self.finished, self.failed, self.all, self.what)


class Finished:
    """Which points of a sweep are finished, and where."""

    def __init__(
        self, files: Sequence[PointsFile], points: Points, base: Callable[[str], float | None]
    ) -> None:
        """Look the points up; `base` gives the number of a key that is not swept."""
        self.files, self.points = files, points
        none = np.zeros(0, np.int64)
        places, values, failed = [np.zeros((0, 2), np.int64)], [np.zeros((0, len(points.paths)))], [none]
        for number, file in enumerate(files):
            kept, found = _in_order(file.layout.paths, file.values, points.paths, base)
            rows = np.flatnonzero(kept)
            places.append(np.stack([np.full(len(rows), number), rows], 1))
            values.append(found)
            failed.append(file.failed[rows])
        self._places, self._failed = np.concatenate(places), np.concatenate(failed)
        """Of each row that may be one of the points its file, its number there, and where it failed."""
        self.found = self._look_up(np.concatenate(values))
        """Of each point the place of its row among all of them, -1 where it is not finished."""

    def _look_up(self, values: np.ndarray) -> np.ndarray:
        if not len(values):
            return np.full(len(self.points.numbers), -1)
        # of several rows of a point the last one that did not fail
        order = np.lexsort((np.arange(len(values)), self._failed < 0))
        known = _identity(values)[order]
        unique, last = np.unique(known[::-1], return_index=True)
        wanted = _identity(self.points.values)
        at = np.minimum(np.searchsorted(unique, wanted), len(unique) - 1)
        found: np.ndarray = np.where(unique[at] == wanted, order[::-1][last][at], -1)
        return found

    @property
    def failed(self) -> np.ndarray:
        """Of each point whether it is finished and has failed."""
        return self.steps >= 0

    @property
    def steps(self) -> np.ndarray:
        """Of each point the step at which it failed, -1 if it did not or is not finished."""
        if not len(self._failed):
            return np.full(len(self.found), -1)
        found: np.ndarray = np.where(self.found >= 0, self._failed[self.found], -1)
        return found

    def counts(self, what: str) -> Counts:
        """Return how many points are finished; `what` is what a point is called."""
        done, failed = int((self.found >= 0).sum()), int(self.failed.sum())
        return Counts(done - failed, failed, len(self.found), what)

    def why(self, place: int) -> str:
        """Return why the point at this place failed."""
        number, row = map(int, self._places[self.found[place]])
        return self.files[number].why.get(row, "")

    def values(self, path: str, places: np.ndarray, layout: Layout) -> np.ndarray:
        """Return what was recorded of the points at these places, `[points, times, batch, ...]`."""
        values = np.zeros((len(places), *layout.recorded[path]), layout.known[path].dtype)
        for file, rows, at in self._in_files(places):
            if path in file.layout.recorded:  # else it had no places
                values[at] = with_places(file.recorded(path, rows), values.shape[-1])
        return values

    def _in_files(self, places: np.ndarray) -> Iterator[tuple[PointsFile, np.ndarray, np.ndarray]]:
        """Yield each file with the rows of points at these places, and where they are among these."""
        wanted = self._places[self.found[places]]
        order = np.lexsort(wanted.T[::-1])
        changes = np.flatnonzero(np.diff(wanted[order, 0])) + 1
        for part in np.split(order, changes):
            if len(part):
                yield self.files[wanted[part[0], 0]], wanted[part, 1], part

    def stretches(self, places: np.ndarray, most: int) -> Iterator[tuple[PointsFile, range, int]]:
        """Yield files with rows of at most so many points that follow each other there and among `places`.

        And the place of the first among these.
        """
        for file, rows, at in self._in_files(places):
            ends = np.flatnonzero((np.diff(rows) != 1) | (np.diff(at) != 1)) + 1
            for part in np.split(np.arange(len(rows)), ends):
                for begin in range(0, len(part), most):
                    few = part[begin : begin + most]
                    yield file, range(int(rows[few[0]]), int(rows[few[-1]]) + 1), int(at[few[0]])

    def events(self, places: np.ndarray, layout: Layout) -> dict[str, np.ndarray]:
        """Return the events of the points at these places, by folder, in the order of a run of all.

        Their slices are those of the points one after the other.
        """
        parts = {folder: [np.zeros(0, dtype)] for folder, dtype in layout.events.items()}
        for file, rows, at in self._in_files(places) if parts else ():
            for folder, events in file.events.items():
                begin, end = (events[POINT].searchsorted(rows, side) for side in ("left", "right"))
                counts = end - begin  # a point may be there twice
                kept = events[np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
                kept["slice"] += np.repeat(layout.batch * at, counts).astype(kept["slice"].dtype)
                parts[folder].append(kept)
        joined = {folder: np.concatenate(found) for folder, found in parts.items()}
        return {
            folder: one[np.lexsort((one["unit"], one["slice"], one["step"]))]
            for folder, one in joined.items()
        }


def _in_order(
    here: Sequence[str], values: np.ndarray, wanted: Sequence[str], base: Callable[[str], float | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows may be points of a sweep of the keys `wanted`, and their values of these keys.

    Keys that one of the two does not sweep have the number of the network.
    """
    kept = np.ones(len(values), bool)
    for at, path in enumerate(here):
        if path not in wanted:
            kept &= values[:, at] == base(path)
    found = np.empty((int(kept.sum()), len(wanted)))
    for at, path in enumerate(wanted):
        found[:, at] = values[kept, here.index(path)] if path in here else base(path)
    return kept, found


def _identity(values: np.ndarray) -> np.ndarray:
    """Return rows of numbers as single items that can be sorted; 0 and -0 are the same."""
    whole = np.ascontiguousarray(values + 0.0)
    return whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).reshape(-1)
