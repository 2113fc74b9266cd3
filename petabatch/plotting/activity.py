"""Activity of layers over time: which were recorded, which spike, and the values of single units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.curves import interrupted
from petabatch.plotting.select import recorded, with_records
from petabatch.plotting.words import layer_names
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import LIMIT

_LOOKS = 20
"""Records in which a layer is looked at to see whether it spikes."""
_TICKS = 6
"""Units of which the numbers are at an axis."""
_STILL = ("input", "constant")
"""Types of layers whose activity is no dynamics of the network."""


class Units(NamedTuple):
    """Units of a layer over time, of one slice."""

    series: Series
    steps: np.ndarray
    """`[time]`."""
    values: np.ndarray
    """`[time, unit]`; NaN where steps are lost, and where they are not finite."""
    numbers: np.ndarray
    """Places of the units in the layer's flattened array (row, column, feature)."""
    of: int
    """Units that the layer has."""

    @property
    def layer(self) -> str:
        """Name of the layer."""
        return self.series.name.split("/")[1]

    @property
    def whole(self) -> bool:
        """Whether these are all units and times that were recorded."""
        return len(self.numbers) == self.of and len(np.unique(self.steps)) >= len(self.series)

    def chosen(self, columns: np.ndarray) -> Units:
        """Return some of the units, in their order in the layer."""
        columns = np.sort(columns)
        return self._replace(values=self.values[:, columns], numbers=self.numbers[columns])


def over_time(run: Results, layers: Sequence[str] = ()) -> list[Series]:
    """Return the activities that a network made over time, or those of `layers`: recorded at least twice.

    By default those of all spiking layers, else of all codes, else of all layers but inputs. Raises
    InputError if there are none.
    """
    if layers:
        given = [with_records(run, run.layer(name)) for name in layers]
        if once := [series.name for series in given if len(series) < 2]:
            raise InputError(
                f"{run.path}: {once[0]} was recorded only once\n"
                "    hint:     record it more often in [output.layers]"
            )
        return given
    known = activities(run)
    if not known:
        tables = run.params.get("layers", {}).items()
        layer = next((name for name, table in tables if table.get("type") not in _STILL), "V1")
        raise InputError(
            f"{run.path}: no activity A was recorded over time\n"
            "    hint:     record that of a layer in [output.layers], such as "
            f'{layer} = {{ variables = ["A"], every = 1 }}'
        )
    return [s for s in known if spikes(s)] or [s for s in known if s.sparse] or known


def moving(run: Results) -> list[str]:
    """Return the recorded layers with dynamics: all but inputs and constants."""
    types = {name: table.get("type") for name, table in run.params.get("layers", {}).items()}
    return [name for name in recorded(run, "layers") if types.get(name) not in _STILL]


def activities(run: Results) -> list[Series]:
    """Return the activities of layers with dynamics that were recorded at least twice."""
    known = [run.layer(name) for name in moving(run) if f"layers/{name}/A" in run]
    return [series for series in known if len(series) >= 2]


def spikes(series: Series) -> bool:
    """Return whether a layer spikes: its activity is a number of spikes, as some records of slice 0 tell."""
    if len(series) < 2:
        return False
    times = np.unique(np.linspace(0, len(series) - 1, _LOOKS).round().astype(int))
    return series.sparse and all(counts(series[int(time), 0]) for time in times)


def counts(values: np.ndarray) -> bool:
    """Return whether activities are numbers of spikes: whole and not negative."""
    return bool(((values >= 0) & (values == np.floor(values))).all())


def every_of(series: Series) -> float:
    """Return the steps between two records."""
    return float(np.median(np.diff(series.steps))) if len(series) > 1 else np.inf


def read_units(series: Series, slice_: int, times: int | None = None) -> Units:
    """Return all units of a layer in one slice, at the last `times`, as many as are within 256 MiB."""
    units = int(np.prod(series.shape[2:]))
    most = max(2, LIMIT // (units * series.dtype.itemsize))
    first = max(0, len(series) - min(times or most, most))
    values = series[first:, slice_].reshape(-1, units)
    if not np.isfinite(values).all():  # of a slice that has failed
        values = np.where(np.isfinite(values), values, np.nan)
    steps, values = interrupted(series, series.steps[first:], values)
    return Units(series, steps, values, np.arange(units), units)


def most_active(units: Units, count: int) -> Units:
    """Return at most `count` units, those with the largest summed activity; silent ones only if all are."""
    total = np.nansum(np.abs(units.values), axis=0, dtype=float)
    count = min(count, int(np.count_nonzero(total)) or len(total))
    return units if count == len(total) else units.chosen(np.argsort(-total, kind="stable")[:count])


def most_varied(variables: Sequence[Units], count: int) -> np.ndarray:
    """Return the numbers of at most `count` units: of those of which each variable changes, the liveliest."""
    found = [spreads(each.values) for each in variables]
    with np.errstate(invalid="ignore"):
        together = np.prod([each / (each.max() or 1.0) for each in found], axis=0)
    chosen: np.ndarray = np.sort(np.lexsort((-found[0], -together))[:count])
    return chosen


def spreads(values: np.ndarray) -> np.ndarray:
    """Return the standard deviations over time of values `[time, unit]` that are finite; 0 without any."""
    there = np.isfinite(values)
    count = np.maximum(there.sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):  # those of a slice that fails grow beyond squares
        mean = np.sum(values, axis=0, where=there, dtype=float) / count
        variance = np.sum(np.square(values - mean), axis=0, where=there) / count
    return np.asarray(np.sqrt(variance))


def number_units(axis: Any, drawn: Sequence[Units]) -> None:
    """Label an axis along which units follow one another: by layers if there are several, else by numbers."""
    ends = np.cumsum([0, *(len(each.numbers) for each in drawn)])
    if len(drawn) > 1:
        axis.set_ticks((ends[1:] + ends[:-1] - 1) / 2, [each.layer for each in drawn])
        axis.set_tick_params(length=0)
        axis.set_label_text("Units by layer")
        return
    axis.set_label_text("Unit")
    numbers = drawn[0].numbers
    if _TICKS < len(numbers) == drawn[0].of:
        axis.get_major_locator().set_params(integer=True)
        return
    ticks = np.unique(np.linspace(0, len(numbers) - 1, min(_TICKS, len(numbers))).round().astype(int))
    axis.set_ticks(ticks, [str(number) for number in numbers[ticks]])


def shares(units: Sequence[Units], count: int) -> list[int]:
    """Return how many of `count` units each layer has, in proportion to its size, and at least one."""
    whole = sum(each.of for each in units)
    return [max(1, round(min(1.0, count / whole) * each.of)) for each in units]


def of_layers(units: Sequence[Units], every: Sequence[Units]) -> str:
    """Return which units of `every` these are, for a title: `layer V1, the 100 most active of 900 units`."""
    shown, whole = sum(len(each.numbers) for each in units), sum(each.of for each in units)
    active = sum(int(np.count_nonzero(np.nansum(np.abs(each.values), axis=0, dtype=float))) for each in every)
    names = layer_names(each.layer for each in units)
    if whole == 1:
        return names
    if shown == whole:
        return f"{names}, all {whole:,} units"
    return f"{names}, the {shown:,} {'most active' if shown < active else 'active'} of {whole:,} units"
