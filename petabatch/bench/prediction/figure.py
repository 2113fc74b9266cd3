"""Figure of a forecast: time of a display and efficiency against the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petabatch.bench.prediction.calibration import Calibration
from petabatch.bench.prediction.forecast import BOTH, Forecast
from petabatch.bench.prediction.link import Link
from petabatch.bench.prediction.model import Prediction, by_batch
from petabatch.bench.prediction.traffic import Traffic
from petabatch.network.possible_parts import AXES
from petabatch.plotting.figures import colours, grid, grid_of_panels, logarithmic, styled
from petabatch.plotting.texts import heading, legend_below
from petabatch.sizes import counted

_TICKS = 9
"""Numbers of ranks at an axis, at most."""


@styled
def draw_forecast(forecast: Forecast) -> Any:
    """Return the figure of one forecast."""
    traffic, calibration, link = forecast.traffic, forecast.calibration, forecast.link
    most = max(row.ranks for row in forecast.rows)
    batch = curve(traffic, calibration, link, most)
    shared = {
        f"split {split}": [way.prediction for row in forecast.rows if (way := row.best(split)) is not None]
        for split in (*AXES, BOTH)
    }
    figure, (times, efficiencies) = grid_of_panels(None, 2, 2.6)
    curves = {"split batch": batch, **shared}
    for (label, ones), colour in zip(curves.items(), colours(len(curves)), strict=True):
        ranks, style = [one.ranks for one in ones], {"color": colour, "label": label}
        if ones:
            times.plot(ranks, [one.seconds for one in ones], "o-", **style)
            efficiencies.plot(ranks, [one.efficiency(batch[0]) for one in ones], "o-", **style)
    logarithmic(times)
    times.set_ylabel("Time of a display (s)")
    legend_below(figure, *times.get_legend_handles_labels())
    efficiencies.set_ylim(0, 1.05)
    efficiencies.set_ylabel("Parallel efficiency")
    for axes in (times, efficiencies):
        ranks_axis(axes, [one.ranks for one in batch])
    over = f"{counted(traffic.batch, 'slice')}, links of {link}"
    heading(figure, f"Prediction, not measured: {forecast.title}, {over}")
    return figure


def curve(traffic: Traffic, calibration: Calibration, link: Link, most: int) -> list[Prediction]:
    """Return predictions with a split batch for powers of two up to `most` ranks, and for `most`."""
    ranks = {2**exponent for exponent in range(most.bit_length())} | {most}
    return [by_batch(traffic, calibration, link, number) for number in sorted(ranks)]


def ranks_axis(axes: Any, ranks: Sequence[int]) -> None:
    """Make the x axis one of numbers of ranks, with some of them as labels."""
    shown = ranks[:: -(-len(ranks) // _TICKS)]
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [f"{number:,}" for number in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("Ranks")
    grid(axes)
