"""Draw the energy of a run, or another probe: plot_energy.py runs/natural_images."""

from __future__ import annotations

from typing import Any

from common import choose, main, options

from petabatch import plotting
from petabatch.results import Results

parser = options("Draw the energy over the run, or the quantities of another probe.")
parser.add_argument("--probe", help="probe to draw (default: the first energy probe)")
parser.add_argument("--quantities", nargs="+", metavar="NAME", help="quantities to draw (default: all)")
parser.add_argument("--log", action="store_true", help="use a logarithmic axis")


def draw(run: Results, given: Any) -> Any:
    """Return the figure."""
    name = given.probe or choose(run, "probes", lambda p: p.get("type") == "energy", "--probe")
    measured = run.probe(name)
    wanted = given.quantities or sorted(measured, key=lambda quantity: quantity != "total")
    curves = {q: measured[q] if q in measured else run[f"probes/{name}/{q}"] for q in wanted}
    first, *rest = curves
    return plotting.energy(
        curves[first].steps,
        curves[first],
        {quantity: curves[quantity] for quantity in rest},
        name=first,
        ylabel="energy" if "total" in curves else first if not rest else name,
        display=run.params.get("run", {}).get("display"),
        log=given.log,
        title=given.title or name.capitalize(),
    )


if __name__ == "__main__":
    main(parser, draw)
