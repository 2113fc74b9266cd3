"""From a network's description to its graph: checked, with levels, delays and declared arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from petabatch.connections import Clone, Conv
from petabatch.errors import ParamsError, Problem
from petabatch.layers import Input
from petabatch.network.checks import (
    check_borders,
    check_learning,
    check_names,
    check_normalisers,
    check_observers,
    check_resets,
    reporter,
    unknown,
)
from petabatch.network.features import check_features
from petabatch.network.lazy import check_kernel
from petabatch.network.lazy import variables as lazy_variables
from petabatch.network.levels import delivers, find_levels
from petabatch.network.until import check_until, variables
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Wiring
from petabatch.variable import Border, Variable


@dataclass(frozen=True)
class Edge:
    """A connection in its place: what it delivers, from when, into which buffer."""

    name: str
    connection: Connection
    wiring: Wiring
    lookback: int
    """The pre layer's activity of this many steps before is delivered."""
    buffer: int
    factor: float
    """Strength times the sign of the channel."""


@dataclass(frozen=True)
class Graph:
    """A checked network. Levels are updated in order; layers of one level do not wait for each other."""

    network: Network
    levels: Mapping[str, int]
    edges: Mapping[str, tuple[Edge, ...]]
    """Delivering connections by post layer, in the order of the params file."""
    wirings: Mapping[str, Wiring]
    """Of every connection, delivering or not."""
    depth: Mapping[str, int]
    """Steps of activity each layer keeps."""

    @cached_property
    def order(self) -> list[list[str]]:
        """Layer names, level by level."""
        numbers = sorted(set(self.levels.values()))
        return [[name for name in self.network.layers if self.levels[name] == number] for number in numbers]

    @cached_property
    def plastic(self) -> dict[str, Conv]:
        """Connections that learn."""
        return {name: c for name, c in self.weighted.items() if c.learn is not None}

    @cached_property
    def learning_pairs(self) -> dict[str, list[tuple[str, str]]]:
        """By plastic connection, where its weights learn: itself and clones, each with its error layer."""
        found = {}
        for name, conv in self.plastic.items():
            clones = {n: c for n, c in self.network.connections.items() if isinstance(c, Clone)}
            assert conv.learn is not None
            found[name] = [
                (name, conv.learn.against or conv.post),
                *((n, clone.error) for n, clone in clones.items() if clone.of == name and clone.error),
            ]
        return found

    @cached_property
    def weighted(self) -> dict[str, Conv]:
        """Connections with weights of their own."""
        return {name: c for name, c in self.network.connections.items() if isinstance(c, Conv)}

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Every array of the simulation, by its key, as `layers/V1/V`: the only list there is."""
        layers = self.network.layers
        found: dict[str, Variable] = variables(self.network) | lazy_variables(self)
        for name, layer in layers.items():
            found[f"layers/{name}/A"] = Variable(
                "A",
                (self.depth[name], *layer.shape),
                ("lag", "y", "x", "feature"),
                "activity of the last steps, step t in place t modulo the length",
            )
            for variable in layer.variables():
                found[f"layers/{name}/{variable.name}"] = variable
        for name, conv in self.weighted.items():
            weights = conv.weights(layers)
            found[f"connections/{name}/weights"] = weights
            link = self.wirings[name].link
            if link is not None and not link.scatter:
                p = link.patches
                found[f"connections/{name}/patches"] = Variable(
                    "patches",
                    (p.groups, p.features, p.length),
                    ("group", "feature", "weight"),
                    "the weights seen from the post layer",
                    per=weights.per,
                    checkpoint=False,
                )
            if conv.learn is not None:
                own = [*conv.learn.variables(weights), *self._update_variables(name, conv, weights)]
                found |= {f"connections/{name}/{variable.name}": variable for variable in own}
        return found

    def reset_lookback(self, source: str, layer: str) -> int:
        """Return how many steps before the activity of `source` was made that `layer` is reset to."""
        return int(self.levels[source] >= self.levels[layer])

    def _update_variables(self, name: str, conv: Conv, weights: Variable) -> list[Variable]:
        """Declare what the updates of a plastic connection need beside its rule's own state."""
        output = self.network.output.connections.get(name)
        usage = replace(
            weights,
            name="usage",
            shape=(1, 1, weights.shape[2]),
            dims=weights.dims[:3],
            description="how often each feature was active at the last update, over positions and slices",
        )
        counted = conv.revive is not None or (output is not None and "usage" in output.variables)
        sums = [replace(weights, name="product")]
        if conv.learn is not None and conv.learn.counted:
            # All post features of a place see the same pre units.
            sums += [replace(weights, name="counts", shape=(*weights.shape[:-1], 1))]
        sums += [replace(usage, name="active")] if counted else []
        late = self.network.run.reduce == "overlapped" and weights.per == "network"
        return [
            *(replace(one, per="slice", checkpoint=False) for one in sums),
            *(replace(one, name=f"late_{one.name}") for one in sums if late),
            *([usage] if counted else []),
            *([replace(usage, name="idle", description="updates without activity")] if conv.revive else []),
        ]

    def border(self, layer: str) -> Border:
        """Return the border rule of a layer."""
        return self.network.layers[layer].border


def build(network: Network) -> Graph:
    """Check a network and derive its graph.

    Raises ParamsError with every problem found: dangling names, geometry, channels, cycles.
    """
    problems: list[Problem] = []
    check_names(network, problems)
    wirings = _wire(network, problems)
    check_borders(network, problems)
    check_learning(network, problems)
    check_normalisers(network, problems)
    check_observers(network, problems)
    check_resets(network, problems)
    check_until(network, problems)
    check_features(network, problems)
    levels = find_levels(network, problems)
    if problems:
        raise ParamsError(problems)
    edges = {name: _edges(network, name, wirings, levels) for name in network.layers}
    graph = Graph(network, levels, edges, wirings, _depths(network, edges, levels))
    problems = check_kernel(graph)
    if problems:
        raise ParamsError(problems)
    return graph


def _wire(network: Network, problems: list[Problem]) -> dict[str, Wiring]:
    wirings: dict[str, Wiring] = {}
    for name, connection in network.connections.items():
        place = f"connections.{name}"
        dangling = [end for end in ("pre", "post") if getattr(connection, end) not in network.layers]
        problems += [
            unknown(f"{place}.{end}", "layer", getattr(connection, end), network.layers) for end in dangling
        ]
        if dangling:
            continue
        channels = network.layers[connection.post].channels
        if connection.channel not in (*channels, "none"):
            problems.append(unknown(f"{place}.channel", "channel", connection.channel, (*channels, "none")))
        wiring = connection.wire(network.layers, network.connections, reporter(place, problems))
        if wiring is not None:
            wirings[name] = wiring
    return wirings


def _edges(
    network: Network, post: str, wirings: Mapping[str, Wiring], levels: Mapping[str, int]
) -> tuple[Edge, ...]:
    found = []
    for name, connection in network.connections.items():
        if connection.post != post or not delivers(connection):
            continue
        buffer, sign = network.layers[post].channels[connection.channel]
        before = connection.feedback or levels[connection.pre] >= levels[post]
        found.append(
            Edge(
                name,
                connection,
                wirings[name],
                connection.delay + before,
                buffer,
                sign * connection.strength,
            )
        )
    return tuple(found)


def _depths(
    network: Network, edges: Mapping[str, tuple[Edge, ...]], levels: Mapping[str, int]
) -> dict[str, int]:
    """Return how many steps of activity each layer must keep so that every edge finds its own."""
    depth = dict.fromkeys(network.layers, 1)
    for post, incoming in edges.items():
        for edge in incoming:
            pre = edge.connection.pre
            # A layer updated later in the step (or this very one) has not yet overwritten its last activity.
            later = (levels[pre] > levels[post] or pre == post) and not isinstance(network.layers[pre], Input)
            depth[pre] = max(depth[pre], edge.lookback + (0 if later else 1))
    for name, layer in network.layers.items():
        if layer.reset_to is not None and levels[layer.reset_to] == levels[name]:
            depth[layer.reset_to] = max(depth[layer.reset_to], 2)
    for connection in network.connections.values():
        learns = isinstance(connection, Conv) and connection.learn is not None
        if learns or (isinstance(connection, Clone) and connection.error is not None):
            depth[connection.pre] = max(depth[connection.pre], connection.delay + 1)
    return depth
