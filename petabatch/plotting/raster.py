"""Plot of the spikes or the activity of one slice over time, with rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.activity import (
    Units,
    counts,
    every_of,
    most_active,
    number_units,
    of_layers,
    over_time,
    read_units,
    shares,
    spikes,
)
from petabatch.plotting.curves import legend_above, mark_gaps
from petabatch.plotting.figures import colour_bar, colours, grid, height_of, panels, styled
from petabatch.plotting.options import Option, Slice, Steps, Title, Unit
from petabatch.plotting.select import check_slice
from petabatch.plotting.texts import heading, note, points, wrapped
from petabatch.plotting.words import TimeAxis, of_slice, span, time_axis
from petabatch.results import Results
from petabatch.results.series import Series

_SPIKING, _GRADED = 1000, 100
"""Units that are drawn by default."""
_BINS = 200
"""Bins of a rate, at most."""


def find(run: Results, layers: Sequence[str] = ()) -> list[Series]:
    """Return the activities of spiking layers, else of the first code, recorded at least twice."""
    found = over_time(run, layers)
    return found if layers or spikes(found[0]) else found[:1]


@styled
def raster(
    run: Results,
    *,
    layers: Annotated[
        Sequence[str], Option("layers to draw (default: all spiking ones, else the first code)")
    ] = (),
    slice: Slice = 0,
    count: Annotated[
        int | None, Option("number of units, the most active (default: 1000 spiking or 100 others)", least=1)
    ] = None,
    times: Annotated[int, Option("number of recorded times, the last ones", least=2)] = 1000,
    unit: Unit = "",
    steps: Steps = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the spikes of one slice over time as dots, or its activity as colours, with rates above.

    Each row is a unit. Of the recorded times and the units, the last times and the most active units are
    drawn, of several layers in proportion to their sizes. Units are numbered by row, column and feature, as
    in the flattened array. The rate is the mean over all units of a layer, in at most 200 bins.
    """
    found, number = find(run, layers), check_slice(run, slice)
    every = [read_units(series, number, times) for series in found]
    if not any(np.nansum(np.abs(each.values), dtype=float) for each in every):
        raise InputError(f"{run.path}: {found[0].name} is silent in slice {number}")
    spiking = all(counts(each.values[np.isfinite(each.values)]) for each in every)
    most = count or (_SPIKING if spiking else _GRADED)
    drawn = [most_active(each, share) for each, share in zip(every, shares(every, most), strict=True)]
    rows = sum(len(each.numbers) for each in drawn)
    time = time_axis(run, unit, every_of(found[0]))
    tall = float(np.clip(0.045 * rows, 1.2, 3.6))
    figure, ((above,), (below,)) = panels(figure, 1.6 + tall, 2, 1, height_ratios=[0.8, tall])
    above.sharex(below)
    _rates(above, every, time, spiking)
    inches = min(tall, height_of(figure) - 1.6)
    (_dots if spiking else _map)(below, drawn, time, inches)
    gaps = [gap for gap in found[0].gaps if drawn[0].steps[0] < gap[0]]
    for axes in (above, below):
        mark_gaps(axes, gaps, time.per)
    above.tick_params(labelbottom=False)
    time.label_axis(below)
    if steps and time.per != 1:
        time.label_axis(above, steps)
        above.set_xlabel("")
    below.set_ylim(rows - 0.5, -0.5)
    number_units(below.yaxis, drawn)
    if rates := _meaning(run, every, drawn, unit, spiking):
        note(below, rates)
    shown = len(np.unique(drawn[0].steps))
    cut = f", the last {shown:,} of {len(found[0]):,} records" if shown < len(found[0]) else ""
    what = "Spikes" if spiking else "Activity"
    heading(figure, title, f"{what} of {of_layers(drawn, every)}, {of_slice(run, number)}{cut}")
    return figure


def _meaning(run: Results, every: Sequence[Units], drawn: Sequence[Units], unit: str, spiking: bool) -> str:
    """Return a note of which units and bins the curves above are, where that is not plain to see."""
    whole = " over all units of a layer" if len(every) > 1 else f" over all {every[0].of:,} units"
    over = whole if any(len(some.numbers) < each.of for some, each in zip(drawn, every, strict=True)) else ""
    wide = _width(every[0])
    bins = f" in bins of {span(run, wide * every_of(every[0].series), unit)}" if wide > 1 else ""
    name = "Rates" if spiking else "Mean activity"
    return f"{name}: means{over}{bins}" if over or bins else ""


def _width(units: Units) -> int:
    """Return the records in a bin of a rate."""
    return max(1, -(-len(units.steps) // _BINS))


def _rates(axes: Any, every: Sequence[Units], time: TimeAxis, spiking: bool) -> None:
    for each, colour in zip(every, colours(len(every)), strict=True):
        width = _width(each)
        whole = len(each.steps) // width * width
        values = np.abs(each.values[-whole:]).mean(axis=1).reshape(-1, width).mean(axis=1)
        at = each.steps[-whole:].reshape(-1, width).mean(axis=1) / time.per
        axes.plot(
            at,
            values * (time.hertz / every_of(each.series) if spiking else 1),
            color=colour,
            label=f"layer {each.layer}",
            lw=0.9,
        )
    axes.set_ylabel(
        wrapped(f"Rate ({time.unit})" if spiking else "Mean activity", 0.8, points("axes.labelsize"))
    )
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=4)
    grid(axes)
    if len(every) > 1:
        legend_above(axes)


def _dots(axes: Any, drawn: Sequence[Units], time: TimeAxis, inches: float) -> None:
    first, rows = 0, sum(len(each.numbers) for each in drawn)
    size = float(np.clip(72 * inches / rows, 0.8, 4.0))
    for each, colour in zip(drawn, colours(len(drawn)), strict=True):
        at, unit = np.nonzero(each.values > 0)
        style = {"marker": "|", "ms": size, "mew": 0.7} if size > 2 else {"marker": "o", "ms": 1.1, "mew": 0}
        axes.plot(
            each.steps[at] / time.per, first + unit, ls="none", color=colour, **style,
            label=f"layer {each.layer}", rasterized=len(at) > 3000,
        )  # fmt: skip
        first += len(each.numbers)
    start, end = (float(drawn[0].steps[place]) for place in (0, -1))
    axes.set_xlim((start - 1) / time.per, (end + 1) / time.per)


def _map(axes: Any, drawn: Sequence[Units], time: TimeAxis, inches: float) -> None:
    steps = drawn[0].steps
    values = np.concatenate([each.values for each in drawn], axis=1).T
    signed = bool((values < 0).any())
    largest = float(np.nanmax(np.abs(values)))
    edges = np.concatenate([steps - np.diff(steps, prepend=2 * steps[0] - steps[1]), steps[-1:]]) / time.per
    mesh = axes.pcolormesh(
        edges, np.arange(len(values) + 1) - 0.5, values, cmap="RdBu_r" if signed else "magma_r",
        vmin=-largest if signed else 0, vmax=largest, rasterized=True,
    )  # fmt: skip
    axes.set_xlim(edges[0], edges[-1])
    mesh.places = steps / time.per, np.arange(len(values))
    colour_bar(axes, mesh, "Activity")
