"""Plot of what probes measured against the values in which slices differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.figures import colours, from_zero, grid, grid_of_panels, logarithmic, plain, styled
from petabatch.plotting.many_points import cloud, follows, gridded, heat_map, is_log, many, unordered
from petabatch.plotting.options import Option, Title
from petabatch.plotting.select import with_records
from petabatch.plotting.texts import capital, heading, legend_below, note, points, wrapped
from petabatch.plotting.words import in_figures, per_second, quantity, spaced
from petabatch.results import Results

_WIDE = 8.0
"""Ratio of the largest to the smallest value, from which an axis of uneven values is logarithmic."""
_LEGEND = 12
"""Curves up to which there is a legend."""
_MEAN = "mean of slices"
_USUAL = ("/total", "/fraction", "/rate", "/cv")
"""Ends of the quantities that are drawn by default."""


class Found(NamedTuple):
    """What there is to draw."""

    along: str
    """Name of the value on the axis."""
    columns: dict[str, np.ndarray]
    """Each value in which slices differ, `[batch]`."""
    measured: dict[str, np.ndarray]
    """What was measured of each slice, `[batch]`, by the path of its series."""


def find(run: Results, quantities: Sequence[str] = (), against: str | None = None, last: int = 1) -> Found:
    """Return the values, and means of quantities over the `last` records.

    By default these are total energies, active fractions, and rates and CV of spikes. Raises InputError where
    there are none to draw.
    """
    columns = run.differing
    if not columns:
        raise InputError(
            f"{run.path}: all slices of this run have the same values\n"
            "    expected: a run with [sweep], or with values per slice"
        )
    if against is not None and against not in columns:
        raise InputError(
            f"{run.path}: slices do not differ in this\n    found:    {against}\n"
            f"    expected: {', '.join(columns)}"
        )
    names = [name.removeprefix("probes/") for name in run if name.startswith("probes/")]
    usual = [name for end in _USUAL for name in names if name.endswith(end)]
    wanted = list(quantities) or usual or names[:1]
    if not wanted:
        raise InputError(f"{run.path}: nothing was measured\n    expected: a probe, such as the energy")
    along = against or max(columns, key=lambda name: len(np.unique(columns[name])))
    measured = {}
    for name in wanted:
        series = with_records(run, run[f"probes/{name}"])
        with np.errstate(invalid="ignore"):  # of points that failed
            measured[series.name] = in_figures(
                series.name, series[-last:].mean(axis=0), per_second(run, series.name)
            )
        if np.isnan(measured[series.name]).all():
            raise InputError(_nothing(run, name))
    return Found(along, columns, measured)


def _nothing(run: Results, name: str) -> str:
    """Return what is said of a quantity that is NaN in all slices."""
    failed = run.coordinates.get("failed")
    if failed is not None and (failed >= 0).all():
        said = f"there is nothing to draw, since all {run.failed:,} points failed"
        return f"{run.path}: {said}\n    hint:     `petabatch info {run.path}` says why"
    return f"{run.path}: {name} is NaN in all slices\n    expected: another quantity"


@styled
def sweep(
    run: Results,
    *,
    quantities: Annotated[
        Sequence[str],
        Option("what to draw, as energy/total (default: total energies, active fractions, rates and CV)"),
    ] = (),
    against: Annotated[
        str | None,
        Option("value on the axis (default: the one with the most levels)"),
    ] = None,
    last: Annotated[int, Option("number of records to average over", least=1)] = 1,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return what probes measured against the values in which slices differ, one panel for each quantity.

    Circles are slices, dots the means of those that have the same values. Where slices differ in
    several values, there is a curve for each combination of the others, without those that follow from the
    first. Of very many combinations, it is a heat map over the two values of a grid, or a dot for each slice
    with medians and quartiles. Of several values that are drawn, there is a dot for each slice, too. Failed
    points are left out.
    """
    found = find(run, quantities, against, last)
    along = found.columns[found.along]
    if many(along, found.columns) or unordered(along, found.columns):
        return _of_many(run, found, against, title, figure)
    columns = {name: column for name, column in found.columns.items() if not follows(column, along)}
    swept = [found.along, *(name for name in found.columns if name not in (*columns, found.along))]
    curves: dict[tuple[float, ...], list[int]] = {}
    for number in range(run.batch):
        curves.setdefault(tuple(column[number] for column in columns.values()), []).append(number)
    figure, panels = grid_of_panels(figure, len(found.measured), 2.5)
    names = list(found.measured)
    for axes, (name, values) in zip(panels, found.measured.items(), strict=True):
        for (others, numbers), colour in zip(curves.items(), colours(len(curves)), strict=True):
            label = ", ".join(
                f"{spaced(key)} {plain(float(value))}" for key, value in zip(columns, others, strict=True)
            )
            _curve(axes, along[numbers], values[numbers], colour, label)
        if _is_wide(along):
            logarithmic(axes, "x")
        elif len(np.unique(along)) == 1:
            axes.set_xticks(along[:1])
        grid(axes)
        axes.set(
            xlabel=capital(spaced(found.along)),
            ylabel=wrapped(quantity(run, name, names), 1.9, points("axes.labelsize")),
        )
        from_zero(axes, float(np.nanmin(values)))
    dots = [line for line in panels[0].lines if line.get_linestyle() == "None"]
    lines = [line for line in panels[0].lines if line not in dots]
    labels = [str(line.get_label()) for line in lines]
    if len(curves) > _LEGEND:
        note(panels[0], f"{len(curves)} curves: the combinations of {', '.join(map(spaced, columns))}")
        lines, labels = lines[:1], [_MEAN]
    if dots:
        lines, labels = [*lines, dots[0]], [*labels, "a slice"]
    if len(lines) > 1:
        legend_below(figure, lines, labels)
    first, *zipped = map(spaced, swept)
    with_it = f"; {' and '.join(zipped)} follow{'s' if len(zipped) == 1 else ''} {first}" if zipped else ""
    heading(figure, title, f"Sweep of {' and '.join([first, *map(spaced, columns)])}{with_it}")
    return figure


def _of_many(run: Results, found: Found, against: str | None, title: str, figure: Any) -> Any:
    """Return the figure of points that no curves join."""
    figure, panels = grid_of_panels(figure, len(found.measured), 2.5)
    names = list(found.measured)
    pair = gridded(found.columns) if against is None else None
    for axes, (name, values) in zip(panels, found.measured.items(), strict=True):
        label = wrapped(quantity(run, name, names), 1.9, points("axes.labelsize"))
        if pair is not None:
            x, y = (found.columns[name] for name in pair)
            heat_map(axes, x, y, values, label)
            axes.set(xlabel=capital(spaced(pair[0])), ylabel=capital(spaced(pair[1])))
            if _is_wide(y):
                logarithmic(axes, "y")
        else:
            x = found.columns[found.along]
            cloud(axes, x, values, colours(1)[0], is_log(x))
            from_zero(axes, float(np.nanmin(values)))
            grid(axes)
            axes.set(xlabel=capital(spaced(found.along)), ylabel=label)
        if _is_wide(x) if pair is not None else is_log(x):
            logarithmic(axes, "x")
    lines, labels = panels[0].get_legend_handles_labels()
    if labels:
        legend_below(figure, lines, labels)
    swept = " and ".join(map(spaced, pair or found.columns))
    heading(figure, title, f"Sweep of {swept}")
    return figure


def _curve(axes: Any, along: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
    along, values = along[np.isfinite(values)], values[np.isfinite(values)]
    places, which = np.unique(along, return_inverse=True)
    means = np.bincount(which, values) / np.bincount(which)
    if len(places) < len(values):
        text = f"slices, {label}".removesuffix(", ")
        axes.plot(along, values, "o", color=colour, label=text, ms=3, mfc="none", mew=0.5, clip_on=False)
    axes.plot(places, means, "o-", color=colour, label=label or _MEAN, zorder=3)


def _is_wide(along: np.ndarray) -> bool:
    """Return whether values are spread over scales rather than evenly."""
    places = np.unique(along)
    if len(places) < 3 or places[0] <= 0:
        return False
    steps = np.diff(places)
    return bool(places[-1] / places[0] >= _WIDE and steps.max() / steps.min() >= 2)
