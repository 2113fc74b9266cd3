"""Curves of per-slice quantities: the mean as a line, the spread as a band."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from petabatch.clock import Clock
from petabatch.plotting.figures import colours, from_zero, grid, logarithmic
from petabatch.plotting.texts import capital, note
from petabatch.plotting.words import TimeAxis, in_figures, per_second
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.storage.gaps import Gap, steps_text

_MANY = 8
"""Displays from which on only their ends are drawn; `convergence` draws what happens within them."""
_MOST = 4000
"""Records that are drawn."""
_MOST_ENDS = 400
"""Displays of which the ends are drawn: more than a line can show."""
_BAR = 3.0
"""Points of the width of a bar."""


class Curve(NamedTuple):
    """A line over steps with its band; NaN where steps are lost."""

    steps: np.ndarray
    """`[n]`."""
    mean: np.ndarray
    """`[n]`, over slices."""
    band: np.ndarray
    """Percentiles 10 and 90 of the slices, `[n, 2]`."""


def spread_curve(steps: np.ndarray, values: np.ndarray) -> Curve:
    """Return the mean and spread of values `[n, slice]` over the slices that did not fail.

    The spread is NaN between infinities, such as the gaps of codes without one.
    """
    values = sound(values)
    with np.errstate(invalid="ignore"):
        return Curve(steps, values.mean(axis=1), np.percentile(values, (10, 90), axis=1).T)


def sound(values: np.ndarray) -> np.ndarray:
    """Return values `[n, slice]` of the slices that did not fail, which are NaN from then on; all if all did.

    Where steps are lost, those of all slices are NaN.
    """
    there = values[~np.isnan(values).all(axis=1)]
    whole = ~np.isnan(there).any(axis=0)
    return values[:, whole] if whole.any() else values


def curve(run: Results, series: Series, most: int = _MOST) -> Curve:
    """Return the curve of a probe over the run, of `most` records: that of `drawn`."""
    return spread_curve(*drawn(run, series, most))


def drawn(run: Results, series: Series, most: int = _MOST) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps `[n]` and values `[n, slice]` of a probe of which lines over the run are made.

    They are those at ends of displays, where `ends` says so, with NaN where steps are lost; in the unit of
    `words.quantity`.
    """
    factor = per_second(run, series.name)
    if not ends(series, run.display):
        steps, values = thinned(series, most)
        return steps, in_figures(series.name, values, factor)
    display = Clock(run.display or 1).item(series.steps)
    last = np.flatnonzero(np.diff(display, append=display[-1] + 1))
    every = -(-len(last) // _MOST_ENDS)
    last = last[(len(last) - 1) % every :: every]
    values = in_figures(series.name, np.stack([series[int(at)] for at in last]), factor)
    return interrupted(series, series.steps[last], values)


def ends(series: Series, period: int | None) -> bool:
    """Return whether a probe has several records in each of many displays, which are no line to look at."""
    if not period:
        return False
    display = Clock(period).item(series.steps)
    return _MANY < len(np.unique(display)) < len(display) / 1.5


def draw_curves(
    axes: Any, curves: Mapping[str, Curve], clock: TimeAxis, label: str, *, log: bool = False
) -> None:
    """Draw curves by their names, with a legend if there are several; `label` is that of the y axis."""
    axes.set_ylabel(label)
    lowest = np.inf
    for (label, (steps, mean, band)), colour in zip(curves.items(), colours(len(curves)), strict=True):
        marker, edge = ("o", _BAR) if len(steps) == 1 else (None, 0)  # a band of a single record is a bar
        axes.plot(steps / clock.per, mean, marker=marker, color=colour, label=label, zorder=3)
        lowest = min(lowest, np.nanmin(mean, initial=np.inf), np.nanmin(band, initial=np.inf))
        axes.fill_between(steps / clock.per, *band.T, color=colour, alpha=0.18, linewidth=edge)
    grid(axes)
    if log:
        logarithmic(axes)
    else:
        from_zero(axes, lowest)
    for steps, *_ in curves.values():
        at_record(axes, steps, clock)
    if len(curves) > 1:
        legend_above(axes)


def at_record(axes: Any, steps: np.ndarray, clock: TimeAxis) -> None:
    """Put the only tick of the x axis at the record, where there is a single one."""
    if len(steps) == 1:
        axes.set_xticks(steps / clock.per)


def legend_above(axes: Any, **keys: Any) -> None:
    """Put the legend in a row above the axes, where it hides nothing, nor a power of ten at their left."""
    axes.legend(
        ncols=4, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2, columnspacing=1.2, **keys
    )


def over_the_run(
    run: Results, axes: Any, clock: TimeAxis, at_ends: bool = False, steps: bool = False
) -> None:
    """Label the axes of curves over a run; `at_ends` as `ends` says of what is drawn."""
    clock.label_axis(axes, steps)
    mark_gaps(axes, run.gaps, clock.per)
    single = all(len(line.get_xdata()) == 1 for line in axes.lines)
    if notes := [*meaning([run.batch], at_ends, len(axes.lines), single), *left_out(run)]:
        note(axes, capital("; ".join(notes)))


def meaning(batches: Collection[int], at_ends: bool, lines: int = 2, single: bool = False) -> list[str]:
    """Return a note of what lines and bands of runs with these batches are, if there is anything to say.

    Those of a `single` record are dots and bars.
    """
    when = ["at the end of each display"] if at_ends else []
    if max(batches) == 1:
        return when
    slices = f"of {max(batches)} slices" if len(set(batches)) == 1 else "over slices"
    line, band = ("dot", "bar") if single else ("line", "band")
    plural = "" if lines == 1 else "s"
    return [" ".join([f"{line}{plural}: mean {slices}", *when]), f"{band}{plural}: percentiles 10–90"]


def left_out(run: Results) -> list[str]:
    """Return notes of the steps that are lost and of the slices that failed, if there are any."""
    lost = [f"{steps_text(run.gaps)} are lost"] if run.gaps else []
    failed = int(np.count_nonzero(run.coordinates.get("failed", np.array([-1])) >= 0))
    return [*lost, *([f"without {failed} of {run.batch} slices, which failed"] if failed else [])]


def mark_gaps(axes: Any, gaps: Sequence[Gap], unit: float = 1) -> None:
    """Shade the steps that are lost, on an axis that counts `unit` steps as one."""
    for first, last in gaps:
        axes.axvspan((first - 1) / unit, last / unit, color="#ececec", linewidth=0, zorder=0)


def thinned(series: Series, most: int = _MOST) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps `[n]` and values `[n, slice]` of a probe, at most `most` of its records.

    The last record is one of them. Where steps are lost there is one more, with NaN.
    """
    every = max(1, -(-len(series) // most))
    first = (len(series) - 1) % every
    return interrupted(series, series.steps[first::every], series[first::every])


def interrupted(series: Series, steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return steps `[n]` and values `[n, ...]` with NaN where steps are lost: no line crosses them."""
    inside = [(first, last) for first, last in series.gaps if len(steps) and steps[0] < first < steps[-1]]
    if not inside:
        return steps, values
    at = np.searchsorted(steps, [first for first, _ in inside])
    ends = [last for _, last in inside]
    return np.insert(steps, at, ends), np.insert(values.astype(float), at, np.nan, axis=0)
