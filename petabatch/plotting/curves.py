"""Curves of per-slice quantities: the mean as a line, the spread over slices as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from petabatch.plotting.figures import COLOURS, grid, logarithmic, note
from petabatch.results import Results
from petabatch.series import Series
from petabatch.storage.gaps import Gap, steps_text


def draw_curves(axes: Any, curves: Mapping[str, tuple[np.ndarray, np.ndarray]], *, log: bool = False) -> None:
    """Draw curves (name to steps `[n]` and values `[n, slice]`): means, and percentiles 10 to 90 as bands."""
    lowest = np.inf
    for (label, (steps, values)), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        marker = "o" if len(steps) == 1 else None
        axes.plot(steps, values.mean(axis=1), marker=marker, color=colour, lw=1.8, label=label, zorder=3)
        lowest = min(lowest, np.nanmin(values, initial=np.inf))
        if values.shape[1] > 1:
            low, high = np.percentile(values, (10, 90), axis=1)
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    grid(axes)
    axes.margins(x=0.01)
    if log:
        logarithmic(axes)
    elif lowest >= 0:
        axes.set_ylim(bottom=0)
    if len(curves) > 1:
        axes.legend(ncols=min(4, len(curves)), loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)


def over_the_run(run: Results, axes: Any) -> None:
    """Label the axes of curves over a run."""
    display = run.display
    axes.set_xlabel(f"step ({display} per display)" if display else "step")
    notes = [f"mean and 10–90 % of {run.batch} slices"] if run.batch > 1 else []
    notes += [f"{steps_text(run.gaps)} are lost"] if run.gaps else []
    mark_gaps(axes, run.gaps)
    if notes:
        note(axes, "; ".join(notes))


def mark_gaps(axes: Any, gaps: Sequence[Gap], unit: int = 1) -> None:
    """Shade the steps that are lost, on an axis that counts `unit` steps as one."""
    for first, last in gaps:
        axes.axvspan((first - 1) / unit, last / unit, color="#ececec", linewidth=0, zorder=0)


def thinned(series: Series, most: int = 4000) -> tuple[np.ndarray, np.ndarray]:
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
