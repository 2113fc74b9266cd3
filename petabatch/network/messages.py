"""Messages of a step between ranks that share a slice: their layers, sizes and periods.

They follow from the graph of one of these ranks, as its part of a slice is made by `arrivals.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from petabatch.network.graph import Edge, Graph
from petabatch.network.shares import ALL
from petabatch.spec.compiled import NotSuitable

_NORMS = 16
"""Bytes of the two sums that a rule such as that of `fista` makes over tiles."""


@dataclass(frozen=True)
class Message:
    """What a rank sends of a slice to each of the ranks that receive it."""

    nbytes: int
    period: int
    """Steps from one to the next."""


@dataclass(frozen=True)
class Messages:
    """What a rank sends of a slice in its steps, by the ranks that receive it."""

    summed: tuple[Message, ...] = ()
    """Partial sums, to all ranks with other features."""
    gathered: tuple[Message, ...] = ()
    """Features of this rank, to all ranks with other ones."""
    borders: tuple[Message, ...] = ()
    """Rows at the border of a tile, to the ranks with the tiles before and after it."""
    gathered_rows: tuple[Message, ...] = ()
    """Rows of this rank, or its sums over them, to all ranks with other tiles."""


def messages(graph: Graph) -> Messages:
    """Return the messages of a rank with the graph of its part of a slice; none with that of a whole slice.

    What is gathered, or padded, for one connection serves others. What layers are reset to is left out.
    """
    found: dict[str, dict[object, Message]] = {kind: {} for kind in Messages.__dataclass_fields__}
    itemsize = np.dtype(graph.network.run.precision).itemsize
    for post, edges in graph.edges.items():
        layer = graph.network.layers[post]
        period = layer.every.steps(graph.network.run.display)
        if layer.static or period == 0:
            continue
        for edge in edges:
            steps = 1 if edge.name in graph.delayed else period
            for kind, once, numbers in _of_edge(graph, edge):
                found[kind].setdefault((once, steps), Message(itemsize * numbers, steps))
        if post in graph.tiling.layers and _sums_norms(graph, post):
            found["gathered_rows"][post] = Message(_NORMS, period)
    return Messages(**{kind: tuple(ones.values()) for kind, ones in found.items()})


def _of_edge(graph: Graph, edge: Edge) -> Iterator[tuple[str, object, int]]:
    """Yield the kind, a key and the number of values of each message of a connection."""
    c, name, link = edge.connection, edge.name, edge.wiring.link
    pre, post = (graph.network.layers[layer].shape for layer in (c.pre, c.post))
    taken, made = graph.taken(name), graph.given(name)
    rows, features = graph.tiling.shares.get(name, ALL), graph.shares.get(name, ALL)
    seen = c.pre, c.carries, edge.lookback
    if rows.gathers:
        yield "gathered_rows", seen, math.prod(pre)
    if features.gathers:
        yield "gathered", (seen, taken[0]), taken[0] * pre[1] * pre[2]
    if link is not None and graph.tiling.by_tiles(name):
        y, x = link.patches.y, link.patches.x
        reach = max(y.before, y.after)
        if reach and link.scatter:
            yield "borders", name, reach * x.fine * link.patches.channels
        elif reach and graph.border(c.pre) != "image":
            padded = seen, y.before, y.after, x.before, x.after, taken
            yield "borders", padded, reach * x.padded * link.patches.channels
    if features.gives == "sum":
        yield "summed", name, math.prod(made)
    if features.completes:
        yield "gathered", name, math.prod(made)
    if rows.completes:
        yield "gathered_rows", name, made[0] * post[1] * post[2]


def _sums_norms(graph: Graph, layer: str) -> bool:
    """Return whether the rule of a layer adds up norms over its tiles in each step."""
    try:
        return graph.network.layers[layer].compiled_rule().adaptive is not None
    except NotSuitable:
        return False
