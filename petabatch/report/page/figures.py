"""Figures of the report: those of `petabatch plot` as SVG, with their numbers as CSV."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.activity import spikes
from petabatch.plotting.figures import Page, pyplot
from petabatch.plotting.kinds import draw_function, reason_against
from petabatch.plotting.network import draw_network
from petabatch.plotting.table import as_csv, network_as_csv
from petabatch.plotting.texts import described
from petabatch.plotting.traces import find as find_traces
from petabatch.results import Results
from petabatch.results.use import LIMIT


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
    options: dict[str, Any] = {}
    if any(spikes(series) for series in activities):
        kinds: tuple[str, ...] = ("sweep", "raster", "correlation", "traces")
    elif any(series.sparse for series in activities):
        kinds = ("sweep", "sparsity")
    else:
        kinds = ("sweep", "traces", "phase")
        options = {"traces": {"slice": _liveliest(run)}}
    kinds = tuple(kind for kind in kinds if not reason_against(kind, run))
    if "raster" in kinds and all(spikes(series) for series in find_traces(run)):
        kinds = tuple(kind for kind in kinds if kind != "traces")  # of spikes, that are in the raster
    found = (_drawing(kind, run, options.get(kind, {})) for kind in kinds)
    return [drawing for drawing in found if drawing is not None]


def _liveliest(run: Results) -> int:
    """Return the slice that varies most over time of those that stay finite: slice 0 may rest."""
    found = [] if reason_against("traces", run) else find_traces(run)
    if run.batch == 1 or not found or int(np.prod(found[0].shape)) * found[0].dtype.itemsize > LIMIT:
        return 0
    values = found[0][...].reshape(len(found[0]), run.batch, -1)
    finite = np.flatnonzero(np.isfinite(values).all(axis=(0, 2)))
    if not len(finite):
        return 0
    with np.errstate(over="ignore", invalid="ignore"):
        return int(finite[np.std(values[:, finite], axis=0, dtype=float).mean(axis=1).argmax()])


def network(run: Results) -> Drawing:
    """Return the drawing of the network."""
    params = run.params
    figure = draw_network(params["layers"], params["connections"], params.get("title") or "")
    names = ", ".join(params["layers"])
    return _drawn("network", figure)._replace(
        alternative=f"Drawing of the network: layers {names}",
        csv=network_as_csv(params["layers"], params["connections"]),
    )


def _drawing(kind: str, run: Results, options: dict[str, Any]) -> Drawing | None:
    """Return a figure; None where its numbers leave nothing to draw, as those of a layer that is silent."""
    try:
        return _drawn(kind, draw_function(kind)(run, **options))
    except InputError:
        return None


def _drawn(name: str, figure: Any) -> Drawing:
    """Return a figure as SVG without background, and close it."""
    written = io.StringIO()
    with Page().context():
        text, numbers = described(figure), as_csv(figure)
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    pyplot().close(figure)
    svg = written.getvalue()
    return Drawing(name, svg[svg.index("<svg") :], numbers, text)
