"""Plot of the correlation of units over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.activity import (
    Units,
    every_of,
    most_active,
    number_units,
    of_layers,
    over_time,
    read_units,
    shares,
    spreads,
)
from petabatch.plotting.figures import colour_bar, colours, grid, panels, solid, styled, width_of
from petabatch.plotting.options import Option, Slice, Title, Unit
from petabatch.plotting.select import check_slice
from petabatch.plotting.texts import axes_title, heading
from petabatch.plotting.words import of_slice, span
from petabatch.results import Results
from petabatch.results.series import Series

_BINS = 100
"""Bins over the run, by default."""


def find(run: Results, layers: Sequence[str] = ()) -> list[Series]:
    """Return activities with enough records for a correlation, of layers with the same records."""
    found = [series for series in over_time(run, layers) if len(series) >= 3]
    found = [series for series in found if np.array_equal(series.steps, found[0].steps)]
    if not found or sum(int(np.prod(series.shape[2:])) for series in found) < 2:
        raise InputError(
            f"{run.path}: no two units were recorded often enough for a correlation\n"
            "    hint:     record a layer more often in [output.layers]"
        )
    return found


@styled
def correlation(
    run: Results,
    *,
    layers: Annotated[Sequence[str], Option("layers (default: all spiking ones, else all codes)")] = (),
    slice: Slice = 0,
    count: Annotated[int, Option("number of units, the most active", least=2)] = 100,
    bin: Annotated[int | None, Option("records in a bin (default: a hundred bins)", least=1)] = None,
    unit: Unit = "",
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the correlation of the activity of units over time: the matrix, and how its values spread.

    Activity is summed in bins; units that do not change are left out. Of several layers, the most active
    units are taken in proportion to their sizes.
    """
    found, number = find(run, layers), check_slice(run, slice)
    every = [read_units(series, number) for series in found]
    drawn = [_varied(most_active(e, share)) for e, share in zip(every, shares(every, count), strict=True)]
    drawn = [each for each in drawn if len(each.numbers)]
    values = np.concatenate([each.values for each in drawn], axis=1) if drawn else np.zeros((0, 0))
    values = values[np.isfinite(values).all(axis=1)]
    width = bin or max(1, len(values) // _BINS)
    bins = len(values) // width
    binned = values[: bins * width].reshape(bins, width, values.shape[1]).sum(axis=1, dtype=float)
    if binned.shape[0] < 3 or binned.shape[1] < 2:
        raise InputError(f"{run.path}: fewer than two units of {found[0].name} change in slice {number}")
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = np.corrcoef(binned.T)
    wide = width_of(figure)
    beside = wide > 5
    shape: tuple[int, int]
    ratios: dict[str, Any]
    shape, ratios = ((1, 2), {"width_ratios": [1.1, 1]}) if beside else ((2, 1), {"height_ratios": [1.6, 1]})
    figure, axes = panels(figure, 3.2 if beside else 5.0, *shape, **ratios)
    left, right = axes.flat
    image = left.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    left.set_anchor("W")  # in the middle, the place of the colour bar would follow from that of the axes
    colour_bar(left, image, "Correlation")
    ends = np.cumsum([0, *(len(each.numbers) for each in drawn)])
    for end in ends[1:-1]:
        left.axhline(end - 0.5, color="#404040", lw=0.6)
        left.axvline(end - 0.5, color="#404040", lw=0.6)
    for axis in (left.xaxis, left.yaxis):
        number_units(axis, drawn)
    if len(drawn) > 1:
        for text in left.get_yticklabels():
            text.set(rotation=90, va="center")
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    pairs = pairs[np.isfinite(pairs)]
    low, high = np.clip([np.floor(10 * pairs.min()), np.ceil(10 * pairs.max())], -10, 10) / 10
    if low == high:  # all pairs are alike
        low, high = (low - 0.1, high) if low > 0 else (low, low + 0.1)
    right.hist(np.clip(pairs, -1, 1), np.linspace(low, high, 41), **solid(colours(1)[0]))
    right.set(xlabel="Correlation of two units", ylabel="Pairs of units", xlim=(low, high))
    right.locator_params(axis="y", integer=True)
    grid(right)
    mean = f"{pairs.mean():.2f}".replace("-", "−")
    axes_title(right, f"Mean {mean}, s.d. {pairs.std():.2f}")
    length = span(run, width * every_of(found[0]), unit)
    heading(
        figure,
        title,
        f"Correlation of {of_layers(drawn, every)}, {of_slice(run, number)}, in bins of {length}",
    )
    return figure


def _varied(units: Units) -> Units:
    """Return the units that change."""
    return units.chosen(np.flatnonzero(spreads(units.values) > 0))
