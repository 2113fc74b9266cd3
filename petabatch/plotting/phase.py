"""Plot of two variables against each other: phase portraits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.activity import activities, most_varied, over_time, read_units, spikes
from petabatch.plotting.figures import MUTED, colours, panels, pyplot, styled, width_of
from petabatch.plotting.options import Option, Title
from petabatch.plotting.select import check_slice
from petabatch.plotting.texts import heading, legend_below
from petabatch.plotting.traces import find as find_traces
from petabatch.plotting.words import layer_names, of_slice, variable
from petabatch.results import Results
from petabatch.results.series import Series

_SLICES = 6
"""Slices that are drawn by default."""


def find(run: Results, variables: Sequence[str] = ()) -> tuple[Series, Series]:
    """Return two variables of units that belong together, recorded at the same steps."""
    found = find_traces(run, variables)
    if not variables:
        found += [series for series in (over_time(run) if activities(run) else []) if series not in found]
        found = [series for series in found if not spikes(series)]  # which are no coordinates of a state
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if one.shape == other.shape and np.array_equal(one.steps, other.steps):
                return one, other
    raise InputError(
        f"{run.path}: there are no two variables of layers of one shape, recorded at the same steps\n"
        f"    found:    {', '.join(series.name for series in found) or 'spikes'}\n"
        "    hint:     record two variables of a layer in [output.layers], such as V beside A of a code"
    )


@styled
def phase(
    run: Results,
    *,
    variables: Annotated[
        Sequence[str], Option("two variables, as E I or V1/V V1/A (default: the first two that fit)")
    ] = (),
    number: Annotated[int | None, Option("unit to draw (default: the one that varies most)", least=0)] = None,
    slices: Annotated[
        Sequence[int], Option("slices to draw (default: up to six of those that did not fail)")
    ] = (),
    times: Annotated[int, Option("number of recorded times, the last ones", least=3)] = 2000,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the phase portrait of a unit: one variable against another, a curve for each slice.

    A dot is the start of a curve, an arrow its direction in the middle.
    """
    one, other = find(run, variables)
    sound = np.flatnonzero(run.coordinates.get("failed", np.full(run.batch, -1)) < 0)
    among = sound if len(sound) else np.arange(run.batch)
    even = np.unique(np.linspace(0, len(among) - 1, min(_SLICES, len(among))).round().astype(int))
    shown = [check_slice(run, each) for each in slices] or [int(each) for each in among[even]]
    pair = [read_units(series, shown[0], times) for series in (one, other)]
    unit = int(most_varied(pair, 1)[0]) if number is None else number
    whole = pair[0].of
    if unit >= whole:
        raise InputError(f"{run.path}: there is no unit {unit}\n    expected: units from 0 to {whole - 1}")
    figure, ((axes,),) = panels(figure, min(3.6, 0.95 * width_of(figure)))
    for each, colour in zip(shown, colours(len(shown)), strict=True):
        x, y = (read_units(series, each, times).values[:, unit] for series in (one, other))
        axes.plot(x, y, color=colour, lw=0.9, label=of_slice(run, each))
        axes.plot(x[:1], y[:1], "o", color=MUTED, clip_on=False, zorder=4)
        _arrow(axes, x, y, colour)
    axes.set(xlabel=variable(run, one.name), ylabel=variable(run, other.name))
    lines, labels = axes.get_legend_handles_labels()
    start = pyplot().Line2D([], [], color=MUTED, marker="o", ls="none")
    legend_below(figure, [*lines, start], [*labels, "start"])
    of = f", unit {unit}" if whole > 1 else ""
    cut = f", the last {times:,} of {len(one):,} records" if times < len(one) else ""
    names = layer_names(series.name.split("/")[1] for series in (one, other))
    heading(figure, title, f"Phase portrait of {names}{of}{cut}")
    return figure


def _arrow(axes: Any, x: np.ndarray, y: np.ndarray, colour: str) -> None:
    """Draw an arrow in the middle of a curve, if it moves there."""
    if not (np.isfinite(x).any() and np.isfinite(y).any()):
        return
    x, y = x.astype(float), y.astype(float)
    spans = (float(np.nanmax(each) - np.nanmin(each)) or 1.0 for each in (x, y))
    moved = np.hypot(*(np.diff(each) / span for each, span in zip((x, y), spans, strict=True)))
    far = np.nancumsum(moved)
    if not far.size or not far[-1] > 0:
        return
    start = int(np.searchsorted(far, far[-1] / 2))
    end = int(np.searchsorted(far, min(far[start] + 0.02, far[-1])))
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 0, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
    axes.annotate("", (x[end + 1], y[end + 1]), (x[start], y[start]), arrowprops=arrow)
