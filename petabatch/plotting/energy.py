"""Plot of the energy over a run, or of another probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from petabatch.plotting.curves import curve, draw_curves, ends, over_the_run
from petabatch.plotting.figures import panels, styled
from petabatch.plotting.options import Option, Steps, Title, Unit
from petabatch.plotting.select import choose, with_records
from petabatch.plotting.texts import capital, heading, legend_below
from petabatch.plotting.words import clock, quantity
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

    Of many displays with several records each, those at their ends are drawn.
    """
    found = find(run, probe, quantities)
    names = {name: series.name for name, series in found.items()}
    first = names.get("total", next(iter(names.values())))
    whole = "total" in found or len(found) == 1
    label = quantity(run, first) if whole else capital(first.split("/")[1].replace("_", " "))
    time = clock(run, unit)
    figure, ((axes,),) = panels(figure, 2.9)
    curves = {name.replace("_", " "): curve(series, run.display) for name, series in found.items()}
    draw_curves(axes, curves, time, label, log=log)
    if steps and time.per != 1 and (legend := axes.get_legend()):
        legend.remove()  # the axis of steps is there
        legend_below(figure, *axes.get_legend_handles_labels())
    over_the_run(run, axes, time, any(ends(s, run.display) for s in found.values()), steps)
    heading(figure, title or f"{label.split(' (')[0]} over the run")
    return figure
