"""Networks as notebooks show them: a drawing, and tables of their parts. No colour of text is set."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from petabatch.errors import ResourceError
from petabatch.plotting.network import describe, draw_network
from petabatch.spec.load import resolved
from petabatch.spec.network import Network


def network_html(network: Network) -> str:
    """Return a network in HTML; without matplotlib, it is not drawn."""
    tables = resolved(network)
    run = network.run
    length = f"{run.displays} displays of {run.display}" if run.displays else f"{run.steps}"
    parts = [f"<div><p>{escape(network.title or 'network')}: batch {network.batch}, {length} steps</p>"]
    parts.append(_drawing(tables))
    parts.append(
        _table("layers", ((name, one["type"], _shape(one)) for name, one in tables["layers"].items()))
    )
    wires = tables["connections"].items()
    rows = ((f"{one['pre']} → {one['post']}", describe(name, one)) for name, one in wires)
    parts.append(_table("connections", rows))
    parts.append(_table("probes", ((name, one["type"]) for name, one in tables["probes"].items())))
    return "".join([*parts, "</div>"])


def _shape(table: dict[str, Any]) -> str:
    return " × ".join(map(str, table["shape"]))


def _drawing(tables: dict[str, Any]) -> str:
    """Return a drawing on a white card, which dark pages show as well."""
    try:
        from matplotlib import pyplot

        figure = draw_network(tables["layers"], tables["connections"])
    except (ImportError, ResourceError):
        return ""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Creator": None, "Date": None, "Format": None, "Type": None})
    pyplot.close(figure)
    drawn = text.getvalue()
    svg = re.sub(
        r'width="([\d.]+)pt" height="[\d.]+pt"',
        r'style="width: \1pt; max-width: 100%"',  # without a width, the box around it has none either
        drawn[drawn.index("<svg") :],
        count=1,
    )
    return f'<div style="background: white; display: inline-block; border-radius: 6px">{svg}</div>'


def _table(title: str, rows: Iterable[Iterable[str]]) -> str:
    lines = ["".join(f'<td style="text-align: left">{escape(cell)}</td>' for cell in row) for row in rows]
    if not lines:
        return ""
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<details><summary>{len(lines)} {title}</summary><table>{body}</table></details>"
