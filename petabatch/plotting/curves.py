"""Curves of per-slice quantities: the mean as a line, the spread as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from petabatch.plotting.figures import capital, colours, grid, logarithmic, note
from petabatch.plotting.words import Clock
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.storage.gaps import Gap, steps_text

_MANY = 8
"""Displays from which on their ends are drawn, rather than what happens within them."""
_MOST = 4000
"""Records that are drawn."""
_MOST_ENDS = 400
"""Displays of which the ends are drawn: more than a line can show."""


class Curve(NamedTuple):
    """A line over steps with its band; NaN where steps are lost."""

    steps: np.ndarray
    """`[n]`."""
    mean: np.ndarray
    """`[n]`, over slices."""
    band: np.ndarray
    """Percentiles 10 and 90, `[n, 2]`."""


def spread_curve(steps: np.ndarray, values: np.ndarray) -> Curve:
    """Return the mean and spread over slices of values `[n, slice]`."""
    return Curve(steps, values.mean(axis=1), _spread(values, axis=1).T)


def _spread(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Return percentiles 10 and 90, `[2, ...]`; NaN between infinities, such as gaps of codes without one."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.percentile(values, (10, 90), axis=axis)
    return found


def curve(series: Series, period: int | None, most: int = _MOST) -> Curve:
    """Return the curve of a probe over the run, of `most` records: that of `drawn`.

    Of ends of displays, the band is the spread over all records and slices of a display.
    """
    if not ends(series, period):
        return spread_curve(*thinned(series, most))
    first, last = _displays(series, period)
    values = [series[int(a) : int(b) + 1] for a, b in zip(first, last, strict=True)]
    band = np.array([_spread(each) for each in values])
    numbers = np.column_stack([[each[-1].mean() for each in values], band])
    at, numbers = interrupted(series, series.steps[last], numbers)
    return Curve(at, numbers[:, 0], numbers[:, 1:])


def drawn(series: Series, period: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps `[n]` and values `[n, slice]` of a probe of which lines over the run are made.

    They are those at ends of displays, where `ends` says so, with NaN where steps are lost.
    """
    if not ends(series, period):
        return thinned(series)
    _, last = _displays(series, period)
    return interrupted(series, series.steps[last], np.stack([series[int(at)] for at in last]))


def _displays(series: Series, period: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last record of each display that is drawn."""
    display = (series.steps - 1) // (period or 1)
    last = np.flatnonzero(np.diff(display, append=display[-1] + 1))
    first = np.concatenate([[0], last[:-1] + 1])
    every = -(-len(last) // _MOST_ENDS)
    chosen = slice((len(last) - 1) % every, None, every)
    return first[chosen], last[chosen]


def ends(series: Series, period: int | None) -> bool:
    """Return whether a probe has several records in each of many displays, which are no line to look at."""
    if not period:
        return False
    display = (series.steps - 1) // period
    return _MANY < len(np.unique(display)) < len(display) / 1.5


def draw_curves(axes: Any, curves: Mapping[str, Curve], clock: Clock, *, log: bool = False) -> None:
    """Draw curves by their names, with a legend if there are several."""
    lowest = np.inf
    for (label, (steps, mean, band)), colour in zip(curves.items(), colours(len(curves)), strict=True):
        marker = "o" if len(steps) == 1 else None
        axes.plot(steps / clock.per, mean, marker=marker, color=colour, label=label, zorder=3)
        lowest = min(lowest, np.nanmin(mean, initial=np.inf), np.nanmin(band, initial=np.inf))
        axes.fill_between(steps / clock.per, *band.T, color=colour, alpha=0.18, linewidth=0)
    grid(axes)
    if log:
        logarithmic(axes)
    elif lowest >= 0:
        axes.set_ylim(bottom=0)
    for steps, *_ in curves.values():
        at_record(axes, steps, clock)
    if len(curves) > 1:
        legend_above(axes)


def at_record(axes: Any, steps: np.ndarray, clock: Clock) -> None:
    """Put the only tick of the x axis at the record, where there is a single one."""
    if len(steps) == 1:
        axes.set_xticks(steps / clock.per)


def legend_above(axes: Any, **keys: Any) -> None:
    """Put the legend in a row above the axes, where it hides nothing."""
    axes.legend(
        ncols=4, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, columnspacing=1.2, **keys
    )


def over_the_run(run: Results, axes: Any, clock: Clock, at_ends: bool = False, steps: bool = False) -> None:
    """Label the axes of curves over a run; `at_ends` as `ends` says of what is drawn."""
    clock.label_axis(axes, steps)
    mark_gaps(axes, run.gaps, clock.per)
    if notes := [*meaning(run.batch, at_ends), *lost_steps(run)]:
        note(axes, capital("; ".join(notes)))


def meaning(slices: int, at_ends: bool) -> list[str]:
    """Return a note of what lines and bands are, if there is anything to say."""
    several = f"{slices} slices" if slices > 1 else ""
    if at_ends:
        mean = f"mean of {several}" if several else "value"
        return [f"lines: {mean} at the end of each display; bands: 10–90 % within it"]
    return [f"mean and 10–90 % of {several}"] if several else []


def lost_steps(run: Results) -> list[str]:
    """Return a note of the steps that are lost, if there are any."""
    return [f"{steps_text(run.gaps)} are lost"] if run.gaps else []


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
