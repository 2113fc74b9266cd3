"""Plot of energy and duality gap within displays."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from petabatch.clock import Clock
from petabatch.errors import InputError
from petabatch.plotting.curves import interrupted, sound
from petabatch.plotting.figures import grid, grid_of_panels, logarithmic, pyplot, styled
from petabatch.plotting.options import Option, Title, Unit
from petabatch.plotting.select import recorded
from petabatch.plotting.texts import capital, heading, note
from petabatch.plotting.words import quantity, time_axis
from petabatch.results import Results
from petabatch.results.series import Series

_QUANTITIES = ("total", "relative_gap", "kkt")
"""What tells how far a code has converged."""


def find(run: Results) -> list[Series]:
    """Return the energies and gaps that were recorded several times within a display."""
    period = run.display
    if period is None:
        raise InputError(f"{run.path}: the params of this run tell no display period")
    names = [f"probes/{probe}/{quantity}" for probe in recorded(run, "probes") for quantity in _QUANTITIES]
    within = [run[name] for name in names if name in run and _within(run[name], period)]
    if not within:
        raise InputError(
            f"{run.path}: no energy or gap was recorded within displays\n"
            "    hint:     measure it more often, such as probes.energy.every = 10"
        )
    return within


@styled
def convergence(
    run: Results,
    *,
    displays: Annotated[int, Option("number of displays, from the first to the last", least=1)] = 5,
    unit: Unit = "",
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return energy and gap within displays, from the first display to the last: means over slices."""
    series = find(run)
    period = run.display or 1
    times = Clock(period)
    time, names = time_axis(run, unit, every=1), [one.name for one in series]
    figure, axes = grid_of_panels(figure, len(series), 2.6)
    for place, one in zip(axes, series, strict=True):
        steps = one.steps
        number = times.item(steps)
        chosen = np.unique(number)
        chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, displays).round().astype(int))]
        scale = pyplot().get_cmap("viridis")(np.linspace(0, 0.85, len(chosen)))
        for each, colour in zip(chosen, scale, strict=True):
            first, last = np.flatnonzero(number == each)[[0, -1]]
            mean = sound(one[int(first) : int(last) + 1]).mean(axis=1)
            at, mean = interrupted(one, steps[first : last + 1], mean)
            place.plot((at - times.length(each)) / time.per, mean, color=colour, label=f"{each + 1}")
        place.set(
            xlabel=f"{time.label} within a display", ylabel=quantity(run, one.name, names),
            xlim=(0, period / time.per),
        )  # fmt: skip
        logarithmic(place)
        grid(place)
        if time.per == 1:
            place.locator_params(axis="x", integer=True)
        if run.batch > 1:
            note(place, capital(f"means over {run.batch} slices"))
    axes[-1].legend(title="Display")
    heading(figure, title, "Convergence within displays")
    return figure


def _within(series: Series, period: int) -> bool:
    steps = series.steps
    return bool(len(steps) > 1 and np.any(np.diff(Clock(period).item(steps)) == 0))
