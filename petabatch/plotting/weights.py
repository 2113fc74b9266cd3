"""Plot of weights as matrices, with how they spread."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.figures import (
    colour_bar,
    colours,
    logarithmic,
    panels,
    plain,
    solid,
    styled,
    width_of,
)
from petabatch.plotting.options import Option, Slice, Time, Title
from petabatch.plotting.select import check_slice, recorded, when, with_records
from petabatch.plotting.texts import axes_title, capital, heading
from petabatch.results import Results
from petabatch.results.series import Series

_MOST = 3
"""Connections that are drawn by default."""
_CELLS = 1500
"""Rows and columns of a matrix that are drawn: more than a page can show."""
_PIXELS = 600
"""Rows or columns up to which each has a pixel of its own."""
_FAR = 0.998
"""Quantile of the absolute weights at which colours end, where the largest are far beyond."""


def find(run: Results, connections: Sequence[str] = ()) -> list[Series]:
    """Return recorded weights; raises InputError if there are none."""
    names = list(connections) or [
        name for name in recorded(run, "connections") if f"connections/{name}/weights" in run
    ]
    if not names:
        raise InputError(
            f"{run.path}: no weights were recorded\n"
            '    hint:     record them in [output.connections], such as dictionary = { every = "display" }'
        )
    found = [run.weights(name) for name in names]
    if not connections:
        found = [series for series in found if len(series)][:_MOST] or found[:1]
    return [with_records(run, series) for series in found]


@styled
def weights(
    run: Results,
    *,
    connections: Annotated[Sequence[str], Option("connections to draw (default: the first three)")] = (),
    time: Time = -1,
    slice: Slice = 0,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return weights as matrices, and how they spread: one row for each connection.

    A row of a matrix is a pre feature, a column a place in the patch and a post feature. Of units with
    weights of their own, those of the middle are drawn. Single synapses have no matrix.
    """
    found = find(run, connections)
    number = check_slice(run, slice)
    read = [_matrix(run, series, time, number) for series in found]
    beside = width_of(figure) > 5
    count = len(found)
    if beside:
        figure, cells = panels(figure, 0.4 + 2.4 * count, count, 2, width_ratios=[1.5, 1])
    else:
        figure, cells = panels(figure, 0.4 + 3.6 * count, 2 * count, 1, height_ratios=[1.4, 1] * count)
        cells = cells.reshape(count, 2)
    for (left, right), series, matrix in zip(cells, found, read, strict=True):
        name = series.name.split("/")[1]
        table = run.params.get("connections", {}).get(name, {})
        _draw(left, matrix, table, series.shape[-3:])
        flat = matrix[np.isfinite(matrix)]
        right.hist(flat, 50, **solid(colours(1)[0]))
        logarithmic(right)
        right.set(xlabel="Weight", ylabel="Number of weights")
        rows, columns = matrix.shape
        what = f"{columns:,} synapses" if rows == 1 else f"{rows:,} × {columns:,} weights"
        axes_title(left, capital(f"{name}: {what}") if count > 1 else what)
        spread = float(flat.std())
        mean = round(float(flat.mean()), 2 - floor(log10(spread)) if spread else 9)
        axes_title(right, f"Mean {plain(mean, 2)}, s.d. {plain(spread, 2)}")
    step = int(found[0].steps[time])
    names = " and ".join(series.name.split("/")[1] for series in found)
    heading(figure, title, f"Weights of {names}, {when(run, step)}")
    return figure


def _matrix(run: Results, series: Series, time: int, slice_: int) -> np.ndarray:
    """Return weights as `[pre feature, patch and post feature]`, those of synapses in one row."""
    values = series[time, slice_] if series.dims[1] == "batch" else series[time]
    if series.dims[-1] == "synapse":
        ends = np.atleast_2d(run[series.name.replace("/weights", "/starts")][-1])[:, -1]
        return values[None, : int(ends[slice_ if len(ends) > 1 else 0])].astype(float)
    while values.ndim > 4:  # units with weights of their own: those of the middle
        values = values[values.shape[0] // 2]
    values = values.astype(float)
    return values.reshape(values.shape[0], -1) if values.ndim > 1 else values[None]


def _draw(axes: Any, matrix: np.ndarray, table: dict[str, Any], patch: tuple[int, ...]) -> None:
    from matplotlib.ticker import MaxNLocator

    if len(matrix) == 1:
        axes.plot(np.sort(matrix[0])[::-1], color=colours(1)[0])
        axes.set(xlabel="Synapse, strongest first", ylabel="Weight")
        return
    every = [max(1, -(-length // _CELLS)) for length in matrix.shape]
    size = np.abs(matrix[np.isfinite(matrix)])
    largest, most = float(size.max(initial=0)) or 1.0, float(np.quantile(size, _FAR)) if size.size else 0.0
    cut = 0 < most < largest / 2  # a few large weights would make all others pale
    largest = most if cut else largest
    small = max(matrix.shape) > _PIXELS  # "nearest" would leave out rows or columns
    image = axes.imshow(
        matrix[:: every[0], :: every[1]], cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto",
        interpolation="auto" if small else "nearest",
        extent=(-0.5, matrix.shape[1] - 0.5, matrix.shape[0] - 0.5, -0.5),
    )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    colour_bar(axes, image, "Weight", extend="both" if cut else "neither")
    pre, post = (table.get(end, end) for end in ("pre", "post"))
    flat = " × ".join(map(str, patch))
    within = "feature" if patch[:2] == (1, 1) else f"{flat} weights, flattened"
    axes.set(xlabel=f"To {post}: {within}", ylabel=f"From {pre}: feature")
