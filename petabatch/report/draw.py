"""Drawings of the network graph: Mermaid text, or a figure by matplotlib."""

from __future__ import annotations

from pathlib import Path

from petabatch.errors import InputError, ResourceError, StorageError, install
from petabatch.network.graph import Graph
from petabatch.plotting.files import finish
from petabatch.plotting.network import draw_network
from petabatch.spec.load import resolved


def mermaid(graph: Graph) -> str:
    """Return the graph as a Mermaid flow chart; feedback is dotted."""
    lines = ["flowchart LR"]
    for name, layer in graph.network.layers.items():
        lines.append(f'    {name}["{name}<br/>{layer.type} {"x".join(map(str, layer.shape))}"]')
    for name, connection in graph.network.connections.items():
        arrow = "-.->" if connection.feedback else "-->"
        sign = " (-)" if connection.into == "inh" else ""
        lines.append(f'    {connection.pre} {arrow}|"{name}{sign}"| {connection.post}')
    return "\n".join(lines) + "\n"


def draw(graph: Graph, target: Path) -> None:
    """Write the graph to `target`: `.mmd` or `.md` as Mermaid text, `.svg`, `.png` or `.pdf` as a figure.

    Raises InputError for other suffixes, ResourceError when a figure needs matplotlib and it is missing.
    """
    if target.suffix in (".mmd", ".md"):
        text = mermaid(graph)
        try:
            target.write_text(
                f"```mermaid\n{text}```\n" if target.suffix == ".md" else text, encoding="utf-8"
            )
        except OSError as error:
            raise StorageError(f"{target}: the drawing cannot be written: {error.strerror}") from error
        return
    network = resolved(graph.network)
    try:
        figure = draw_network(network["layers"], network["connections"], network["title"] or "")
    except ResourceError as error:
        raise ResourceError(
            f"{target}: this format needs matplotlib\n"
            f"    hint:     {install('analysis')}, or write Mermaid text to a .mmd file"
        ) from error
    known = figure.canvas.get_supported_filetypes()
    if target.suffix[1:].lower() not in known:
        raise InputError(
            f"{target}: unsupported format\n    found:    {target.suffix or 'no suffix'}\n"
            f"    expected: .mmd, .md, {', '.join(f'.{name}' for name in sorted(known))}"
        )
    finish(figure, target)
