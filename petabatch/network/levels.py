"""The levels of a network: the depth of each layer in the graph, which orders the updates of a step."""

from __future__ import annotations

from petabatch.errors import Problem
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer


def delivers(connection: Connection) -> bool:
    """Return whether a connection delivers anything, rather than only holding weights."""
    return connection.channel != "none"


def delivers_later(connection: Connection, pre: Layer) -> bool:
    """Return whether what a connection delivers is of the step before, whatever the order of the layers."""
    return connection.later or (pre.later and connection.carries == "A")


def find_levels(network: Network, problems: list[Problem]) -> dict[str, int]:
    """Return the depth of each layer over connections that are not feedback; a given `phase` pins it."""
    layers = network.layers
    before: dict[str, list[str]] = {name: [] for name in layers}
    for connection in network.connections.values():
        if connection.pre not in layers or connection.post not in layers or not delivers(connection):
            continue
        pinned = all(layers[end].phase is not None for end in (connection.pre, connection.post))
        if not connection.feedback and not pinned and not delivers_later(connection, layers[connection.pre]):
            before[connection.post].append(connection.pre)
    levels: dict[str, int] = {}
    path: list[str] = []

    def level(name: str) -> int:
        if name in levels:
            return levels[name]
        if name in path:
            # The path leads from post to pre; read it the way activity flows.
            raise _Cycle([name, *reversed(path[path.index(name) :])])
        path.append(name)
        depth = max((level(pre) + 1 for pre in before[name]), default=0)
        path.pop()
        phase = layers[name].phase
        if phase is not None and before[name] and phase < depth:
            problems.append(
                Problem(
                    f"layers.{name}.phase",
                    "the phase is earlier than what this layer waits for",
                    found=str(phase),
                    expected=f"at least {depth}, or feedback = true on a connection into {name}",
                )
            )
        levels[name] = depth if phase is None else phase
        return levels[name]

    try:
        for name in layers:
            level(name)
    except _Cycle as found:
        text = " -> ".join(found.cycle)
        closing = [
            name
            for name, c in network.connections.items()
            if (c.pre, c.post) == (found.cycle[-2], found.cycle[-1]) and not c.feedback
        ]
        problems.append(
            Problem(
                f"connections.{closing[0]}",
                "the layers form a cycle in which nothing is marked as feedback",
                found=text,
                hint="set feedback = true on the connection that carries the activity of the step before",
            )
        )
    return levels


class _Cycle(Exception):
    def __init__(self, cycle: list[str]) -> None:
        self.cycle = cycle
