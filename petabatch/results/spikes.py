"""Spikes of a layer as events: steps and units, with rates and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from petabatch.clock import Clock
from petabatch.errors import NotRecorded, ResourceError, install, no_attribute, printable
from petabatch.results.events import ActivityOfEvents
from petabatch.results.series import Series

_BYTES = 1 << 26
"""Bytes of recorded activities that are read at a time."""


@dataclass(frozen=True, eq=False)
class Spikes:
    """The spikes of a layer in one slice, in the order of steps and units.

    A unit with several spikes in one step, as a layer of type `poisson` can have, is there as often.
    """

    steps: np.ndarray
    """The step of each spike, int64 `[spike]`."""
    units: np.ndarray
    """Its unit, numbered by row, column and feature, int64 `[spike]`."""
    dt: float
    """Duration of a step, in the unit of `run.dt`."""
    size: int
    """Number of units."""
    recorded: int
    """Number of steps that were recorded."""
    name: str = ""
    """The layer and the slice."""

    @property
    def times(self) -> np.ndarray:
        """The time of each spike, float64 `[spike]`: the end of its step, in the unit of `run.dt`.

        Brian2's is the beginning of the step, `times - dt`.
        """
        return Clock(dt=self.dt).time(self.steps)

    @property
    def counts(self) -> np.ndarray:
        """The number of spikes of each unit, int64 `[unit]`."""
        return np.bincount(self.units, minlength=self.size)

    @property
    def rates(self) -> np.ndarray:
        """The spikes of each unit in a unit of time, over the steps that were recorded, float64 `[unit]`."""
        return self.counts / Clock(dt=self.dt).time(self.recorded)

    @cached_property
    def isi(self) -> list[np.ndarray]:
        """The intervals between successive spikes of each unit, in the unit of `run.dt`, one array a unit."""
        order = np.argsort(self.units, kind="stable")
        ends = np.cumsum(self.counts)[:-1]
        clock = Clock(dt=self.dt)
        return [clock.time(np.diff(steps)) for steps in np.split(self.steps[order], ends)]

    def cv(self, least: int = 5) -> np.ndarray:
        """Return the coefficient of variation of the intervals of each unit, float64 `[unit]`.

        It is their standard deviation over their mean, 1 for a Poisson process; NaN for units with fewer than
        `least` intervals.
        """
        return np.array(
            [each.std() / each.mean() if each.size >= max(1, least) else np.nan for each in self.isi]
        )

    def to_xarray(self) -> Any:
        """Return an `xarray.Dataset` with `step`, `time` and `unit` along `spike`; needs xarray."""
        try:
            import xarray
        except ImportError as error:
            message = f"xarray is not installed ({error})\n    hint:     {install('analysis')}"
            raise ResourceError(message) from error
        return xarray.Dataset({name: ("spike", values) for name, values in self._columns.items()})

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with the columns `step`, `time` and `unit`, a row for each spike.

        Needs the `analysis` extra: raises ResourceError without it.
        """
        try:
            import pandas
        except ImportError as error:
            raise ResourceError(f"pandas is not installed\n    hint:     {install('analysis')}") from error
        return pandas.DataFrame(self._columns)

    @property
    def _columns(self) -> dict[str, np.ndarray]:
        return {"step": self.steps, "time": self.times, "unit": self.units}

    if not TYPE_CHECKING:  # a type checker would take any name

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return printable(f"<{len(self):,} spikes of {self.name}: {self.size} units, {self.recorded:,} steps>")


def spikes_of(series: Series, number: int, label: str, dt: float) -> Spikes:
    """Return the spikes of slice `number` of a recorded activity.

    Raises NotRecorded where steps between the first and the last are not recorded, or the activity is not a
    number of spikes.
    """
    steps, size = series.steps, int(np.prod(series.shape[2:]))
    if isinstance(series, ActivityOfEvents):
        return Spikes(*series.events(number), dt, size, len(steps), label)
    _check_counts(series, series[-1, number] if len(steps) else np.zeros(1))
    lost = sum(last - first + 1 for first, last in series.gaps if len(steps) and steps[0] < first < steps[-1])
    if len(steps) > 1 and steps[-1] - steps[0] + 1 != len(steps) + lost:
        every = int(np.diff(steps).min())
        raise NotRecorded(
            f"{series.name}: spikes are missing: not every step was recorded\n"
            f"    found:    every {every} steps\n    expected: [output.layers] with every = 1"
        )
    block, found = max(1, _BYTES // (size * series.dtype.itemsize)), [np.zeros((3, 0), np.int64)]
    for begin in range(0, len(steps), block):
        values = series[begin : begin + block, number].reshape(-1, size)
        time, unit = np.nonzero(values)
        count = values[time, unit]
        _check_counts(series, count)
        found.append(np.stack([steps[begin + time], unit, count.astype(np.int64)]))
    at, units, counts = np.concatenate(found, axis=1)
    return Spikes(np.repeat(at, counts), np.repeat(units, counts), dt, size, len(steps), label)


def _check_counts(series: Series, activity: np.ndarray) -> None:
    """Raise NotRecorded if activities are no numbers of spikes."""
    wrong = activity[(activity != np.floor(activity)) | (activity < 0)]
    if wrong.size:
        raise NotRecorded(
            f"{series.name}: this layer does not spike\n    found:    activity {float(wrong[0]):.6g}\n"
            "    expected: numbers of spikes, as of layers of type neurons with `spike`"
        )
