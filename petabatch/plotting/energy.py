"""Plot of the energy over a run, or of another probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from petabatch.plotting.curves import curve, draw_curves, ends, over_the_run
from petabatch.plotting.figures import grid_of_panels, styled
from petabatch.plotting.options import Option, Steps, Title, Unit
from petabatch.plotting.select import choose, with_records
from petabatch.plotting.texts import capital, heading, legend_below, points, wrapped
from petabatch.plotting.words import quantity, spaced, time_axis
from petabatch.results import Results
from petabatch.results.series import Series


def find(run: Results, probe: str | None = None, quantities: Sequence[str] = ()) -> dict[str, Series]:
    """Return the quantities of a probe, by default of the first energy probe, the total first."""
    tables = run.params.get("probes", {})
    hint = "choose another probe with --probe"
    probe = probe or choose(
        run, "probes", lambda name: tables.get(name, {}).get("type") == "energy", "energy probe", hint
    )
    measured = run.probe(probe)
    wanted = list(quantities) or sorted(measured, key=lambda quantity: quantity != "total")
    found = {q: measured[q] if q in measured else run[f"probes/{probe}/{q}"] for q in wanted}
    return {quantity: with_records(run, series) for quantity, series in found.items()}


@styled
def energy(
    run: Results,
    *,
    probe: Annotated[str | None, Option("probe to draw (default: the first energy probe)")] = None,
    quantities: Annotated[Sequence[str], Option("quantities to draw (default: all)")] = (),
    log: Annotated[bool, Option("use a logarithmic axis")] = False,
    unit: Unit = "",
    steps: Steps = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the energy over the run, or the quantities of another probe: mean and spread of the slices.

    The terms of an energy are in one panel, other quantities, of other units, each in its own.
    Of many displays with several records each, those at their ends are drawn.
    """
    found = find(run, probe, quantities)
    measured, time = next(iter(found.values())).name.split("/")[1], time_axis(run, unit)
    terms = run.params.get("probes", {}).get(measured, {}).get("type") == "energy"
    each = [found] if terms else [{name: series} for name, series in found.items()]
    names = ["total" if len(one) > 1 else next(iter(one)) for one in each]
    labels = [quantity(run, f"probes/{measured}/{name}") for name in names]
    figure, places = grid_of_panels(figure, len(each), 2.55)
    for axes, one, label in zip(places, each, labels, strict=True):
        curves = {spaced(name): curve(run, series) for name, series in one.items()}
        draw_curves(axes, curves, time, wrapped(label, 1.9, points("axes.labelsize")), log=log)
        if steps and time.per != 1 and (legend := axes.get_legend()):
            legend.remove()  # the axis of steps is there
            legend_below(figure, *axes.get_legend_handles_labels())
        over_the_run(run, axes, time, any(ends(s, run.display) for s in one.values()), steps)
    subject = labels[0].split(" (")[0] if len(labels) == 1 else capital(spaced(measured))
    heading(figure, title, f"{subject} over the run")
    return figure
