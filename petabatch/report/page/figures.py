"""Figures of the report: those of `petabatch plot` as SVG, with their numbers as CSV."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from petabatch.plotting.activity import spikes
from petabatch.plotting.figures import Page, pyplot
from petabatch.plotting.kinds import draw_function, reason_against
from petabatch.plotting.network import draw_network
from petabatch.plotting.table import as_csv
from petabatch.plotting.texts import described
from petabatch.results import Results


class Drawing(NamedTuple):
    """A figure of the page."""

    name: str
    svg: str
    csv: str
    alternative: str
    """What it shows, in words."""


def drawings(run: Results) -> list[Drawing]:
    """Return the figures that lead the report: of points of a sweep, spikes and rates, or dynamics."""
    activities = [run[name] for name in run if name.startswith("layers/") and name.endswith("/A")]
    if any(spikes(series) for series in activities):
        kinds: tuple[str, ...] = ("raster", "correlation", "traces")
    elif any(series.sparse for series in activities):
        kinds = ("sparsity",)
    else:
        kinds = ("traces", "phase")
    return [
        _drawn(kind, draw_function(kind)(run)) for kind in ("sweep", *kinds) if not reason_against(kind, run)
    ]


def network(run: Results) -> Drawing:
    """Return the drawing of the network."""
    params = run.params
    figure = draw_network(params["layers"], params["connections"], params.get("title") or "")
    names = ", ".join(params["layers"])
    return _drawn("network", figure)._replace(alternative=f"Drawing of the network: layers {names}", csv="")


def _drawn(name: str, figure: Any) -> Drawing:
    """Return a figure as SVG without background, and close it."""
    written = io.StringIO()
    with Page().context():
        text, numbers = described(figure), as_csv(figure)
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    pyplot().close(figure)
    svg = written.getvalue()
    return Drawing(name, svg[svg.index("<svg") :], numbers, text)
