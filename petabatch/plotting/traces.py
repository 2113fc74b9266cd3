"""Plot of variables of single units over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.activity import (
    activities,
    every_of,
    most_varied,
    moving,
    over_time,
    read_units,
    spikes,
)
from petabatch.plotting.curves import legend_above, mark_gaps
from petabatch.plotting.figures import colours, panels, styled
from petabatch.plotting.options import Option, Slice, Steps, Title, Unit
from petabatch.plotting.select import check_slice, recorded, with_records
from petabatch.plotting.texts import heading, points, wrapped
from petabatch.plotting.words import layer_names, of_slice, time_axis, variable
from petabatch.results import Results
from petabatch.results.series import Series

_PANELS = 4
"""Variables that are drawn by default."""
_AXES = 5
"""Axes of a variable of units: time, batch, y, x, feature."""


def find(run: Results, variables: Sequence[str] = ()) -> list[Series]:
    """Return variables of layers that were recorded at least twice, by default those of `over_time`.

    Of spiking layers and codes, those are their other variables, such as membrane potentials, if there are
    any. If no activity was recorded, they are the variables of all layers but inputs. `variables` are names
    such as `V1/V`.
    """
    if variables:
        found = [with_records(run, run.layer(*_split(run, name))) for name in variables]
    else:
        found = [] if activities(run) else _variables(run)
        for activity in [] if found else over_time(run):
            layer = activity.name.split("/")[1]
            others = [run[name] for name in run if name.startswith(f"layers/{layer}/") and name[-2:] != "/A"]
            others = [one for one in others if len(one) >= 2 and one.dims == activity.dims]
            found += [*others, *([] if others and spikes(activity) else [activity])]
    if short := [series.name for series in found if len(series) < 2]:
        raise InputError(
            f"{run.path}: {short[0]} has too few records for a trace\n"
            "    hint:     record it more often in [output.layers]"
        )
    return found if variables else found[:_PANELS]


def _variables(run: Results) -> list[Series]:
    """Return the variables of layers with dynamics, of one value for each unit, recorded at least twice."""
    names = [name for layer in moving(run) for name in run if name.startswith(f"layers/{layer}/")]
    found = [run[name] for name in names]
    return [series for series in found if len(series) >= 2 and len(series.dims) == _AXES]


def _split(run: Results, name: str) -> tuple[str, str]:
    """Return layer and variable of a name such as `V1/V` or `V1`."""
    layer, _, part = name.partition("/")
    if layer not in recorded(run, "layers"):
        run.layer(layer)  # which tells the names that there are
    return layer, part or "A"


@styled
def traces(
    run: Results,
    *,
    variables: Annotated[
        Sequence[str],
        Option(
            "what to draw, as V1/V or V1 for its activity (default: of layers with dynamics of their own)"
        ),
    ] = (),
    units: Annotated[
        Sequence[int], Option("units, numbered by row, column and feature (default: those that vary most)")
    ] = (),
    count: Annotated[int, Option("number of units", least=1)] = 3,
    times: Annotated[int, Option("number of recorded times, the last ones", least=3)] = 2000,
    slice: Slice = 0,
    unit: Unit = "",
    steps: Steps = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return variables of single units of one slice over time, one panel for each variable.

    In layers of one shape the same units are drawn, in the same colours.
    """
    found, number = find(run, variables), check_slice(run, slice)
    time = time_axis(run, unit, every_of(found[0]))
    figure, axes = panels(figure, 0.7 + 1.15 * len(found), len(found), 1)
    every = [read_units(series, number, times) for series in found]
    chosen: dict[tuple[int, ...], np.ndarray] = {}
    cut = ""
    for place, (row, series, read) in enumerate(zip(axes, found, every, strict=True)):
        axis = row[0]
        alike = [one for one in every if one.series.shape[2:] == series.shape[2:]]
        wanted = chosen.setdefault(
            series.shape[2:], np.array(units, int) if len(units) else most_varied(alike, count)
        )
        if wanted.max() >= read.of or wanted.min() < 0:
            raise InputError(
                f"{run.path}: {series.name} has no unit {wanted.max()}\n"
                f"    expected: units from 0 to {read.of - 1}"
            )
        for each, colour in zip(wanted, colours(len(wanted)), strict=True):
            axis.plot(read.steps / time.per, read.values[:, each], color=colour, lw=0.9, label=f"unit {each}")
        mark_gaps(axis, [gap for gap in series.gaps if read.steps[0] < gap[0]], time.per)
        axis.set_ylabel(wrapped(variable(run, series.name), 1.0, points("axes.labelsize")))
        if read.of > 1 and (not place or series.shape[2:] != found[place - 1].shape[2:]):
            legend_above(axis)
        if place:
            axis.sharex(axes[0, 0])
        axis.tick_params(labelbottom=place == len(found) - 1)
        if len(read.steps) < len(series):
            cut = f", the last {len(read.steps):,} of {len(series):,} records"
    figure.align_ylabels([row[0] for row in axes])
    time.label_axis(axes[-1, 0])
    if steps and time.per != 1:
        time.label_axis(axes[0, 0], steps)
        axes[0, 0].set_xlabel("")
    names = layer_names(series.name.split("/")[1] for series in found)
    few = "" if len(units) or all(read.of <= count for read in every) else ", units that vary most"
    heading(figure, title, f"Traces of {names}{few}, {of_slice(run, number)}{cut}")
    return figure
