"""Plot of the energy over a run, or of another probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from petabatch.plotting.curves import curve, draw_curves, ends, over_the_run
from petabatch.plotting.figures import heading, panels, styled
from petabatch.plotting.options import Option, Title
from petabatch.plotting.select import choose, with_records
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
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the energy over the run, or the quantities of another probe: mean and spread of the slices.

    If there are several records in each of many displays, the line is the mean at the end of each display,
    and the band the spread over its records.
    """
    found = find(run, probe, quantities)
    name = next(iter(found.values())).name.split("/")[1]
    figure, ((axes,),) = panels(figure, (6.4, 3.6))
    draw_curves(axes, {quantity: curve(s, run.display) for quantity, s in found.items()}, log=log)
    over_the_run(run, axes, any(ends(s, run.display) for s in found.values()))
    axes.set_ylabel("energy" if "total" in found else name if len(found) > 1 else next(iter(found)))
    heading(figure, title or name.capitalize())
    return figure
