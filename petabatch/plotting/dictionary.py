"""Plot of a dictionary."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from petabatch.pixels import about_zero, pictures
from petabatch.plotting.figures import (
    MARK,
    bars_by_rank,
    colours,
    grid,
    height_of,
    panels,
    solid,
    styled,
    width_of,
)
from petabatch.plotting.options import (
    Code,
    Connection,
    DisplayForTime,
    Grey,
    Option,
    PerRow,
    Slice,
    Time,
    Title,
)
from petabatch.plotting.patches import find_weights, read_dictionary
from petabatch.plotting.select import recorded, recorded_time, when
from petabatch.plotting.texts import axes_title, capital, heading
from petabatch.plotting.tiles import columns_of, label, mosaic, show
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of


class Found(NamedTuple):
    """What there is to draw."""

    weights: Series
    code: Series | None


def find(run: Results, connection: str | None = None, code: str | None = None) -> Found:
    """Return the weights, and the code that gives the use of their features, if it was recorded."""
    weights = find_weights(run, connection)
    table = run.params["connections"].get(weights.name.split("/")[1], {})
    ends = [table.get(end) for end in ("pre", "post")]
    known = [name for name in ends if name in recorded(run, "layers") and run.layer(name).sparse]
    name = code or (known[0] if known else None)
    series = run.layer(name) if name else None
    return Found(weights, series if series is not None and len(series) else None)


@styled
def dictionary(
    run: Results,
    *,
    connection: Connection = None,
    order: Annotated[Literal["use", "index"], Option("order of the features")] = "use",
    time: Time = -1,
    display: DisplayForTime = None,
    slice: Slice = 0,
    position: Annotated[
        tuple[int, int] | None,
        Option(
            "row and column of the unit whose weights to draw (default: the centre)", parts=("ROW", "COLUMN")
        ),
    ] = None,
    code: Code = None,
    last: Annotated[int, Option("number of displays over which to average the use", least=1)] = 10,
    per_row: PerRow = None,
    grey: Grey = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the dictionary with numbered features and a bar chart of their use; dead features are framed.

    Each feature is scaled by its largest absolute weight, and zero is middle grey. The use of a feature is
    the fraction of its units that were active. Features of a second layer are projected through the first.
    """
    found = find(run, connection, code)
    name = found.weights.name.split("/")[1]
    read = read_dictionary(run, name, recorded_time(found.weights, time, display), slice, position)
    use = None if found.code is None else use_of(found.code, last)
    if use is not None and len(use) != len(read.weights):
        use = None
    count = len(read.weights)
    numbers = np.arange(count) if use is None or order == "index" else np.argsort(-use, kind="stable")
    tiles = pictures(about_zero(read.weights[numbers]), grey)
    wide, below = width_of(figure), 0.35 if use is None else 1.75
    per_row = per_row or columns_of(count, tiles.shape[1] / tiles.shape[2], across=wide - 0.2)
    laid = mosaic(tiles, per_row, wide - 0.2, len(str(count - 1)), tallest=height_of(figure) - below)
    rows = [1.0] if use is None else [laid.tall, 0.9]
    figure, axes = panels(figure, laid.tall + below, len(rows), 1, height_ratios=rows)
    show(axes[0, 0], laid.image)
    dead = [] if use is None else (use[numbers] == 0).tolist()
    label(axes[0, 0], laid, [str(number) for number in numbers], dead)
    heading(figure, title, f"{capital(read.title)}, {when(run, read.step)}")
    if use is not None:
        _use(axes[1, 0], use, numbers, order)
    return figure


def _use(axes: Any, use: np.ndarray, numbers: np.ndarray, order: str) -> None:
    count = len(use)
    by_use = order == "use"
    if by_use:
        bars_by_rank(axes, 100 * use[numbers], list(map(str, numbers)))
    else:
        axes.bar(numbers, 100 * use, width=1.0, **solid(colours(1)[0]))
        axes.set(xlim=(-0.5, count - 0.5), xlabel="Feature")
        axes.locator_params(axis="x", integer=True)
    dead = np.flatnonzero(use[numbers] == 0)
    if len(dead):  # an empty line would count as one at the corner of the figure when it is laid out
        axes.plot(dead + by_use, np.zeros(len(dead)), "|", color=MARK, ms=6, mew=1, clip_on=False)
    axes.set_ylabel("Active units (%)")
    grid(axes)
    text = f"{len(dead):,} of {count:,} dead (framed)" if len(dead) else "none dead"
    axes_title(axes, f"Use of the features; {text}")
