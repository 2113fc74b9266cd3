"""Feature parallelism: a rank's part of the features as a smaller network, and sums over the parts.

Each rank of a group has nf / F features of the split layers. Between layers, features are gathered, cut out
or summed as `network/shares.py` says; sums are in the order of ranks, so that the bits depend on F alone.
"""

from __future__ import annotations

from petabatch.engine.split import Split, portion, weights_of_part
from petabatch.network.build import part_of_features
from petabatch.network.plan import Plan
from petabatch.network.shares import Part, side, split_layers
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network, Parallel
from petabatch.spec.parts import Connection

FEATURES = 2
"""The axis of the features of a layer."""


class FeatureSplit(Split):
    """A part of the features, with the weights of these."""

    def __init__(self, whole: Plan, group: Comm) -> None:
        network, part = whole.graph.network, Part(group.rank, group.size)
        layers = split_layers(network)
        own = part_of_features(whole.graph, _part(network, layers, group), part)
        super().__init__(whole, group, layers, own)

    def of(self, plan: Plan) -> FeatureSplit:
        """Return the same part of another network."""
        return FeatureSplit(plan, self.group)


def _part(network: Network, split: frozenset[str], group: Comm) -> Network:
    """Return the network of one rank of the group."""
    layers = {}
    for name, layer in network.layers.items():
        layers[name] = layer
        if name in split:
            ny, nx, nf = layer.shape
            start = {variable: portion(one, -1, group) for variable, one in layer.start.items()}
            layers[name] = layer.model_copy(update={"shape": (ny, nx, nf // group.size), "start": start})
    connections: dict[str, Connection] = {}
    for name, connection in network.connections.items():
        connections[name] = connection
        owner = connection.patch_owner
        split_by = "" if owner is None else side(owner, split)
        if owner is None or not split_by:
            continue
        axis = -4 if split_by == "pre" else -1
        connections[name] = weights_of_part(connection, axis, group)
    return network.model_copy(update={"layers": layers, "connections": connections, "parallel": Parallel()})
