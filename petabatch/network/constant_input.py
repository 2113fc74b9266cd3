"""Input that follows from constants alone, and layers whose numbers do not stay finite under it."""

from __future__ import annotations

from collections.abc import Mapping

from petabatch.errors import Problem
from petabatch.network.graph import Edge, Graph


def check_constant_input(graph: Graph) -> list[Problem]:
    """Check that no layer is driven by constants to numbers that are not finite; not of values over time."""
    network = graph.network
    if network.over_time:
        return []
    known = _constants(graph)
    problems = []
    for name, layer in network.layers.items():
        edges = graph.edges[name]
        drive = [_drive(edges, buffer, known) for buffer in range(layer.buffers)]
        reason = layer.refused(drive, network.run.dt, network.run.length)
        if reason:
            by = (f"{edge.factor:g} {edge.connection.pre} ({edge.connection.into})" for edge in edges)
            found = f"{reason}; input: {' + '.join(by) or 'none'}"
            message = "the numbers of this layer do not stay finite"
            problems.append(Problem(f"layers.{name}", message, found, hint=layer.diverges))
    return problems


def _constants(graph: Graph) -> dict[str, float]:
    """Return the activity of layers that are constant from step 1 on, the same in all units."""
    found: dict[str, float] = {}
    for name in (name for level in graph.order for name in level):
        layer = graph.network.layers[name]
        value = None if layer.starts else layer.constant
        if value is None and layer.linear_gain is not None and layer.steady:
            drive = _drive(graph.edges[name], 0, found)
            value = None if drive is None else layer.linear_gain * drive
        if value is not None:
            found[name] = value
    return found


def _drive(edges: tuple[Edge, ...], buffer: int, known: Mapping[str, float]) -> float | None:
    """Return what arrives in a buffer in every step, None if it is not known."""
    total = 0.0
    for edge in edges:
        if edge.buffer != buffer:
            continue
        pre = edge.connection.pre
        if pre not in known or edge.lookback or edge.connection.operation != "copy":
            return None
        total += edge.factor * known[pre]
    return total
