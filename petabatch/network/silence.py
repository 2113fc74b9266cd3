"""Layers that stay 0 in a whole run, because nothing reaches them."""

from __future__ import annotations

from collections.abc import Collection

from petabatch.network.graph import Edge, Graph
from petabatch.network.slices import own_values


class Silence:
    """What stays 0 in a network; what is not known to stay 0 does not."""

    def __init__(self, graph: Graph, empty: Collection[str]) -> None:
        """Follow activity from its origins; the weights or synapses of `empty` are all 0 in step 0."""
        self._graph, self._empty = graph, empty
        paths = (*own_values(graph.network, 0), *graph.network.over_time)
        self._varied = {tuple(path.split(".")[:2]) for path in paths}
        layers = graph.network.layers
        self._active = {name for name in layers if self._active_alone(name)}
        while more := [name for name in layers if name not in self._active and self._reached(name)]:
            self._active.update(more)
        self.layers = [name for name in layers if name not in self._active]
        """Layers whose activity is 0 in every step."""
        self.weights = [name for name in empty if not self.learns(name)]
        """Connections whose weights are 0 in every step."""

    def varies(self, table: str, name: str) -> bool:
        """Return whether numbers of a layer or connection are not the same in all slices and steps."""
        return (table, name) in self._varied

    def learns(self, weights: str | None) -> bool:
        """Return whether weights learn from layers that are active, or may be drawn again."""
        connections = self._graph.network.connections
        if weights in self._graph.learning_synapses:
            return connections[weights].pre in self._active or connections[weights].post in self._active
        owner = self._graph.plastic.get(weights) if weights is not None else None
        if weights is None or owner is None or not owner.learns:
            return False
        return owner.revive is not None or any(
            connections[name].pre in self._active and against in self._active
            for name, against in self._graph.learning_pairs[weights]
        )

    def _reached(self, layer: str) -> bool:
        reset_to = self._graph.network.layers[layer].reset_to
        return reset_to in self._active or any(map(self._passes, self._graph.edges[layer]))

    def _passes(self, edge: Edge) -> bool:
        via = edge.connection
        if self.varies("connections", edge.name) or via.carries != "A":
            return True
        if via.operation in ("other", "background"):
            return True
        border = self._graph.border(edge.connection.pre)
        heard = edge.connection.pre in self._active or not isinstance(border, str)
        weights = edge.name if edge.wiring.synapses is not None else edge.wiring.weights
        return edge.factor != 0 and heard and (weights not in self._empty or self.learns(weights))

    def _active_alone(self, name: str) -> bool:
        """Return whether the activity of a layer may differ from 0 without input."""
        layer = self._graph.network.layers[name]
        if self.varies("layers", name) or layer.images is not None or layer.starts:
            return True
        return not layer.silent if layer.constant is None else layer.constant != 0
