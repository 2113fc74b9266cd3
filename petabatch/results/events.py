"""Spikes that were recorded as events: those of a slice, and the activity of the layer made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from petabatch.errors import NotRecorded
from petabatch.results.series import Series

GROUP = "spikes"
"""Of the run file: `spikes/LAYER/unit` and other columns, one value for each spike."""
_MANY = 1 << 22
"""Spikes that are read at a time."""


class ActivityOfEvents(Series):
    """The activity of a spiking layer in each step, which is made of its events where it is read."""

    def __init__(self, units: Series, slices: Series, shape: tuple[int, ...], reached: int) -> None:
        """Take two columns of the events of all slices.

        `shape` is that of the batch and the layer, `reached` the last step of the run.
        """
        self._units, self._slices = units, slices
        super().__init__(units._file, units._dataset, units.display, units.gaps, units._contained)
        count = int(units._dataset.attrs["recorded_steps"])
        lost = sum(last - max(first, 1) + 1 for first, last in self.gaps)
        steps = np.arange(reached - count - lost + 1, reached + 1)
        for first, last in self.gaps:
            steps = steps[(steps < first) | (steps > last)]
        self._recorded = steps
        layer = units.name.split("/")[1]
        self.name = f"layers/{layer}/A"
        self.dims, self.dtype = ("time", "batch", "y", "x", "feature"), np.dtype(np.float32)
        self.shape = (len(steps), *shape)

    @property
    def units(self) -> str:
        """Unit of the values: 1."""
        return "1"

    @property
    def sparse(self) -> bool:
        """Always true."""
        return True

    @property
    def description(self) -> str:
        """Description of the values."""
        return "activity: the number of spikes in the step"

    @property
    def steps(self) -> np.ndarray:
        """The steps that were recorded, all of them but those that are lost, int64 `[time]`."""
        self._check()
        return self._recorded.copy()

    def _check(self) -> None:
        """Raise StorageError if one of the columns cannot be read."""
        self._units._check()
        self._slices._check()

    def events(self, slice_: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the step and the unit of each spike of a slice, int64 `[spike]`, by steps and units."""
        steps = self._units.steps
        found = [np.flatnonzero(mine == slice_) + at for at, mine in self._blocks(0, len(steps))]
        places = np.concatenate([np.zeros(0, np.int64), *found])
        units = [self._units[at : at + _MANY] for at in range(0, len(steps), _MANY)]
        return steps[places], np.concatenate([np.zeros(0, np.int64), *units])[places]

    def silent(self) -> np.ndarray:
        """Return whether each unit has not spiked in any slice, bool `[unit]`."""
        self._check()
        found = np.ones(int(np.prod(self.shape[2:])), bool)
        for at in range(0, len(self._units.steps), _MANY):
            found[self._units[at : at + _MANY]] = False
            if not found.any():
                break
        return found

    def _blocks(self, begin: int, end: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the slices of spikes, in parts, each with the place of its first."""
        for at in range(begin, end, _MANY):
            yield at, self._slices[at : min(at + _MANY, end)]

    def __getitem__(self, key: Any) -> np.ndarray:
        """Read with numpy's basic indexing; raises StorageError when a segment is missing or damaged."""
        self._check()
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (len(self.shape) - len(keys) + 1)
        keys += [slice(None)] * (len(self.shape) - len(keys))
        try:
            times, slices = (np.arange(n)[one] for n, one in zip(self.shape, keys[:2], strict=False))
        except (IndexError, TypeError) as error:
            raise NotRecorded(
                f"{self.name}: this part cannot be read: {error}\n    found:    {key!r}"
            ) from None
        dense = self._dense(np.atleast_1d(times), np.atleast_1d(slices))
        first = tuple(0 if np.ndim(one) == 0 else slice(None) for one in (times, slices))
        return np.asarray(dense[(*first, *keys[2:])])

    def _dense(self, times: np.ndarray, slices: np.ndarray) -> np.ndarray:
        """Return the activity at some places of time and batch, `[times, slices, y, x, feature]`."""
        found = np.zeros((len(times), len(slices), int(np.prod(self.shape[2:]))), self.dtype)
        shape = (len(times), len(slices), *self.shape[2:])
        if not found.size:
            return found.reshape(shape)
        wanted, spiked = self._recorded[times], self._units.steps
        row = np.full(self._recorded[-1] + 1, -1)
        row[wanted] = np.arange(len(wanted))
        column = np.full(self.shape[1], -1)
        column[slices] = np.arange(len(slices))
        begin, end = spiked.searchsorted((wanted.min(), wanted.max() + 1))
        for at, mine in self._blocks(int(begin), int(end)):
            steps, units = spiked[at : at + len(mine)], self._units[at : at + len(mine)]
            kept = (row[steps] >= 0) & (column[mine] >= 0)
            np.add.at(found, (row[steps[kept]], column[mine[kept]], units[kept]), 1)
        return found.reshape(shape)
