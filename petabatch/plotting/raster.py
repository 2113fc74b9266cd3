"""Plot of the activity or the spikes of one slice over time."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.curves import interrupted, mark_gaps
from petabatch.plotting.figures import axes_title, panels, styled
from petabatch.plotting.options import Option, Slice, Title
from petabatch.plotting.select import check_slice, code_layer, recorded, with_records
from petabatch.results import Results
from petabatch.results.series import Series


class Found(NamedTuple):
    """What there is to draw."""

    series: Series
    layer: str


def find(run: Results, layer: str | None = None) -> Found:
    """Return the activity of a layer that was recorded at least twice: of a spiking one, else of a code."""
    if layer is None:
        types = {name: table.get("type", "") for name, table in run.params.get("layers", {}).items()}
        spiking = [n for n in recorded(run, "layers") if "lif" in types.get(n, "") and f"layers/{n}/A" in run]
        layer = spiking[0] if spiking else None
    series = code_layer(run) if layer is None else with_records(run, run.layer(layer))
    if len(series) < 2:
        raise InputError(
            f"{run.path}: {series.name} was recorded only once\n"
            "    hint:     record it more often in [output.layers]"
        )
    return Found(series, series.name.split("/")[1])


@styled
def raster(
    run: Results,
    *,
    layer: Annotated[str | None, Option("layer to draw (default: a spiking one, else the code)")] = None,
    slice: Slice = 0,
    count: Annotated[int, Option("number of units, the most active ones", least=1)] = 100,
    times: Annotated[int, Option("number of recorded times, the last ones", least=2)] = 1000,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the spikes of one slice over time as dots, or its activity as colours; one row for each unit.

    Of the recorded times and the units, the last times and the most active units are drawn, by feature.
    """
    found = find(run, layer)
    number = check_slice(run, slice)
    first = max(0, len(found.series) - times)
    shape = found.series.shape[2:]
    total = np.zeros(shape)
    for time in range(first, len(found.series)):
        total += np.abs(found.series[time, number])
    flat = np.moveaxis(total, -1, 0).ravel()  # units by feature, then row and column
    units = np.sort(np.argsort(-flat, kind="stable")[: min(count, np.count_nonzero(flat))])
    if not units.size:
        raise InputError(f"{run.path}: {found.series.name} is silent in slice {number}")
    feature, row, column = np.unravel_index(units, (shape[2], shape[0], shape[1]))
    values = np.stack(
        [found.series[t, number][row, column, feature] for t in range(first, len(found.series))], axis=1
    )
    steps, over_time = interrupted(found.series, found.series.steps[first:], values.T)
    values = over_time.T
    figure, ((axes,),) = panels(figure, (8.0, float(np.clip(0.05 * len(units), 2.4, 7.0)) + 0.9))
    if np.isin(values[np.isfinite(values)], (0, 1)).all():
        at, when = np.nonzero(values == 1)
        axes.plot(steps[when], at, "|", color="#202020", ms=4, mew=0.9)
    else:
        signed = bool((values < 0).any())
        largest = float(np.nanmax(np.abs(values)))
        edges = np.concatenate([steps - np.diff(steps, prepend=2 * steps[0] - steps[1]), steps[-1:]])
        drawn = axes.pcolormesh(
            edges, np.arange(len(units) + 1) - 0.5, values, cmap="RdBu_r" if signed else "magma_r",
            vmin=-largest if signed else 0, vmax=largest, rasterized=True,
        )  # fmt: skip
        figure.colorbar(drawn, ax=axes, label="activity")
    mark_gaps(axes, [gap for gap in found.series.gaps if steps[0] < gap[0]])
    ticks = np.unique(np.linspace(0, len(units) - 1, min(12, len(units))).round().astype(int))
    axes.set_yticks(ticks, [f"{feature[i]} ({row[i]}, {column[i]})" for i in ticks], fontsize=8)
    axes.set(xlabel="step", ylabel="feature (row, column)", ylim=(len(units) - 0.5, -0.5))
    text = (
        f"{found.layer}, {run.label(number)}: {len(units)} of {np.count_nonzero(flat)} units that were active"
    )
    axes_title(axes, title or text, 10)
    return figure
