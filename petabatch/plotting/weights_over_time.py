"""Plot of a dictionary as it forms."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import about_zero, pictures
from petabatch.plotting.curves import mark_gaps
from petabatch.plotting.dictionary import find as find_dictionary
from petabatch.plotting.figures import colours, grid, height_of, logarithmic, panels, styled, width_of
from petabatch.plotting.options import Connection, Grey, Option, Slice, Steps, Title, Unit
from petabatch.plotting.patches import find_weights, read_dictionary
from petabatch.plotting.select import spread
from petabatch.plotting.texts import axes_title, capital, heading
from petabatch.plotting.tiles import label, mosaic, show
from petabatch.plotting.words import time_axis
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of

_CURVE = 1.5
"""Inches of the height of the curve."""
_AROUND = 1.35
"""Inches that titles and labels take above and below the panels."""


def find(run: Results, connection: str | None = None) -> Series:
    """Return weights that were recorded more than once."""
    weights = find_weights(run, connection, records=2)
    if len(weights) < 2:
        raise InputError(
            f"{run.path}: {weights.name} was recorded only once\n"
            "    hint:     record it more often in [output.connections]"
        )
    return weights


@styled
def weights_over_time(
    run: Results,
    *,
    connection: Connection = None,
    count: Annotated[int, Option("number of features, from the most to the least used", least=1)] = 16,
    times: Annotated[int, Option("number of times, as even as the records allow", least=2)] = 8,
    slice: Slice = 0,
    grey: Grey = False,
    unit: Unit = "",
    steps: Steps = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return features as they form, from top to bottom, and how fast the dictionary changes.

    The change between two records is |dW| / |W|, divided by the displays between them. It is not
    shown where steps between them are lost: several changes largely cancel each other.
    """
    weights = find(run, connection)
    name = weights.name.split("/")[1]
    code = find_dictionary(run, name).code
    chosen = np.unique(np.linspace(0, len(weights) - 1, times).round().astype(int))
    read = [read_dictionary(run, name, int(time), slice) for time in chosen]
    patches = [each.weights for each in read]
    use = np.zeros(len(patches[0])) if code is None else use_of(code)
    numbers = spread(use, count) if len(use) == len(patches[0]) else np.arange(count)
    tiles = np.concatenate([about_zero(each[numbers]) for each in patches])
    pixels = pictures(tiles, grey)
    wide, high = width_of(figure), height_of(figure)
    kept = min(len(numbers), max(1, int((wide - 0.8) / 0.2)))
    if kept < len(numbers):
        pixels = np.concatenate([each[:kept] for each in np.split(pixels, len(chosen))])
        numbers = numbers[:kept]
    laid = mosaic(pixels, len(numbers), wide - 0.75, 0, tallest=high - _CURVE - _AROUND)
    tall, ratios = laid.tall + _CURVE + _AROUND, [laid.tall, _CURVE]
    figure, ((top,), (below,)) = panels(figure, tall, 2, 1, height_ratios=ratios)
    show(top, laid.image)
    label(top, laid)
    top.set_axis_on()
    for side in top.spines.values():
        side.set_visible(False)
    time = time_axis(run, unit)
    y, x = laid.tile[0] / 2 - 0.5, laid.tile[1] / 2 - 0.5
    when = weights.steps[chosen] / time.per
    top.set_yticks(laid.corners[:: len(numbers), 0] + y, [f"{each:.6g}" for each in when])
    apart = max(1, round(0.25 / (laid.inches / len(numbers))))  # so that numbers do not touch
    top.set_xticks((laid.corners[: len(numbers), 1] + x)[::apart], [str(each) for each in numbers[::apart]])
    top.tick_params(length=0)
    top.set(ylabel=time.label, xlabel="Feature")
    few = f"{len(numbers)} of {len(use):,} " if len(numbers) < len(use) else ""
    heading(figure, title, f"{capital(read[0].name)}: {few}features as they form")
    at, change = _changes(weights, slice, time.per)
    below.plot(at / time.per, change, marker="o", color=colours(1)[0])
    mark_gaps(below, weights.gaps, time.per)
    time.label_axis(below, steps)
    below.set_ylabel(f"Change {time.unit}" if time.unit != "Hz" else "Change per unit of time")
    axes_title(below, "Change of the dictionary, relative to its norm")
    if change.any():  # fixed weights do not change
        logarithmic(below)
    grid(below)
    return figure


def _changes(weights: Series, slice_: int, period: float) -> tuple[np.ndarray, np.ndarray]:
    """Return steps, and |dW| / |W| per `period` steps since the record before; NaN after lost steps."""
    times = np.unique(np.linspace(0, len(weights) - 1, 100).round().astype(int))
    per_slice = weights.dims[1] == "batch"
    change, before = [], None
    for time in times:
        now = (weights[int(time), slice_] if per_slice else weights[int(time)]).astype(float)
        if before is not None:
            change.append(np.linalg.norm(now - before) / (np.linalg.norm(now) or 1.0))
        before = now
    steps = weights.steps[times]
    rate = np.array(change) / np.diff(steps) * period
    for first, _ in weights.gaps:
        rate[(steps[:-1] < first) & (first <= steps[1:])] = np.nan
    return steps[1:], rate
