"""Plot of a dictionary as it forms."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import about_zero, pictures
from petabatch.plotting.curves import mark_gaps
from petabatch.plotting.dictionary import find as find_dictionary
from petabatch.plotting.figures import COLOURS, axes_title, grid, logarithmic, panels, styled
from petabatch.plotting.options import Connection, Grey, Option, Slice, Title
from petabatch.plotting.patches import find_weights, read_dictionary
from petabatch.plotting.select import spread
from petabatch.plotting.tiles import mosaic, show
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of

_LABELS = 0.7, 1.2
"""Inches that labels take beside and above the panels, so that the mosaic is as wide as the curve."""
_CURVE = 1.9
"""Inches of the height of the curve."""


def find(run: Results, connection: str | None = None) -> Series:
    """Return weights that were recorded more than once."""
    weights = find_weights(run, connection)
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
    inches = float(np.clip(0.5 * len(numbers), 6.4, 12.0))
    laid = mosaic(pictures(tiles, grey), len(numbers), inches - _LABELS[0], 0)
    figure, ((top,), (below,)) = panels(
        figure, (inches, laid.tall + _CURVE + _LABELS[1]), 2, 1, height_ratios=[laid.tall, _CURVE]
    )
    show(top, laid.image)
    top.set_axis_on()
    top.set_anchor("W")
    for side in top.spines.values():
        side.set_visible(False)
    period = run.display
    steps = weights.steps
    middle = laid.tile[0] / 2 - 0.5, laid.tile[1] / 2 - 0.5
    top.set_yticks(
        laid.corners[:: len(numbers), 0] + middle[0], [f"{steps[t] / (period or 1):g}" for t in chosen]
    )
    top.set_xticks(laid.corners[: len(numbers), 1] + middle[1], [str(each) for each in numbers])
    top.tick_params(length=0, labelsize=8)
    top.set(ylabel="display" if period else "step", xlabel="feature")
    axes_title(top, title or f"{read[0].name}: features forming")
    at, change = _changes(weights, slice, period or 1)
    below.plot(at / (period or 1), change, marker="o", ms=3, color=COLOURS[0], lw=1.8)
    mark_gaps(below, weights.gaps, period or 1)
    below.set(
        xlabel="display" if period else "step",
        ylabel=f"change per {'display' if period else 'step'}",
    )
    below.locator_params(axis="x", integer=True)
    if change.any():  # fixed weights do not change
        logarithmic(below)
    grid(below)
    return figure


def _changes(weights: Series, slice_: int, period: int) -> tuple[np.ndarray, np.ndarray]:
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
