"""Drawings of the network graph: Mermaid text, or a figure by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petabatch.errors import InputError, ResourceError
from petabatch.network.graph import Graph

_COLOURS = {"input": "#8fb9d9", "lca": "#f2b56b", "linear": "#d9d9d9", "constant": "#b8d8a8"}


def mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flow chart; feedback is dotted."""
    lines = ["flowchart LR"]
    for name, layer in graph.network.layers.items():
        lines.append(f'    {name}["{name}<br/>{layer.type} {"x".join(map(str, layer.shape))}"]')
    for name, connection in graph.network.connections.items():
        arrow = "-.->" if connection.feedback else "-->"
        sign = " (-)" if connection.channel == "inh" else ""
        lines.append(f'    {connection.pre} {arrow}|"{name}{sign}"| {connection.post}')
    return "\n".join(lines) + "\n"


def draw(graph: Graph, target: Path) -> None:
    """Write the graph to `target`: `.mmd` or `.md` as Mermaid text, `.svg`, `.png` or `.pdf` as a figure.

    Raises InputError for other suffixes, ResourceError when a figure needs matplotlib and it is missing.
    """
    if target.suffix in (".mmd", ".md"):
        text = mermaid(graph)
        target.write_text(f"```mermaid\n{text}```\n" if target.suffix == ".md" else text)
        return
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ResourceError(
            f"{target}: this format needs matplotlib\n"
            "    hint:     pip install 'petabatch[analysis]', or write Mermaid text to a .mmd file"
        ) from error
    rows = max(len(level) for level in graph.order)
    figure = Figure(figsize=(2.6 * len(graph.order) + 0.6, 1.5 + 1.2 * rows), layout="constrained")
    known = figure.canvas.get_supported_filetypes()
    if target.suffix[1:].lower() not in known:
        raise InputError(
            f"{target}: unsupported format\n    found:    {target.suffix or 'no suffix'}\n"
            f"    expected: .mmd, .md, {', '.join(f'.{name}' for name in sorted(known))}"
        )
    _figure(graph, figure.add_subplot())
    figure.savefig(target, dpi=160)


def _figure(graph: Graph, axes: Any) -> None:
    places = {}
    for column, level in enumerate(graph.order):
        for row, name in enumerate(level):
            places[name] = (column, (len(level) - 1) / 2 - row)
    for name, (x, y) in places.items():
        layer = graph.network.layers[name]
        axes.text(
            x,
            y,
            f"{name}\n{layer.type}\n{' × '.join(map(str, layer.shape))}",
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.6", "fc": _COLOURS.get(layer.type, "#eeeeee"), "ec": "#444444"},
            zorder=3,
        )
    for number, (name, connection) in enumerate(graph.network.connections.items()):
        start, end = places[connection.pre], places[connection.post]
        back = end[0] <= start[0]
        bend = (0.35 if back else 0.0) + 0.12 * ((number % 3) - 1) * (abs(end[0] - start[0]) > 1 or back)
        axes.annotate(
            "",
            end,
            start,
            arrowprops={
                "arrowstyle": "-|>",
                "connectionstyle": f"arc3,rad={bend}",
                "linestyle": "--" if connection.feedback else "-",
                "color": "#b03030" if connection.channel == "inh" else "#305080",
                "shrinkA": 38,
                "shrinkB": 38,
            },
        )
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        lift = -bend * abs(end[0] - start[0]) * (1 if end[0] >= start[0] else -1) * 0.5
        axes.text(
            middle[0], middle[1] + lift + 0.06, name, fontsize=8, ha="center", color="#333333", zorder=4
        )
    axes.set_xlim(-0.6, len(graph.order) - 0.4)
    half = max(len(level) for level in graph.order) / 2
    axes.set_ylim(-half, half + 0.5)
    axes.axis("off")
    axes.set_title(graph.network.title or "network; dashed: feedback, red: subtracted", fontsize=10)
