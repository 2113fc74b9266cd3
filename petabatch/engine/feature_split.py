"""Feature parallelism: a rank's part of the features as a smaller network, and sums over the parts.

Each rank of a group has nf / F features of the split layers. What leaves a split layer is a partial sum; the
parts are added where they arrive, in the order of ranks, so that the bits depend on F alone.
"""

from __future__ import annotations

from petabatch.engine.split import Split, portion
from petabatch.network.feature_range import FeatureRange
from petabatch.network.features import split_layers
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network, Parallel
from petabatch.spec.parts import Connection


class FeatureSplit(Split):
    """A part of the features, with the weights of these."""

    def __init__(self, whole: Plan, group: Comm) -> None:
        network = whole.graph.network
        layers = split_layers(network)
        super().__init__(whole, group, layers, _part(network, layers, group))

    def of(self, plan: Plan) -> FeatureSplit:
        """Return the same part of another network."""
        return FeatureSplit(plan, self.group)

    def joins(self, pre: str, post: str) -> bool:
        """Return whether what a connection delivers is a partial sum over features."""
        return pre in self.layers and post not in self.layers


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
        ends = connection.pre in split, connection.post in split
        if connection.operation == "copy" and ends[0] != ends[1]:
            connections[name] = _range(connection, network.layers[connection.post].shape[2], ends[0], group)
            continue
        if connection.owner is not None and any(ends):
            axis = -4 if ends[0] else -1  # of the features of the pre or of the post layer
            init, learn = portion(connection.owner.init, axis, group), connection.owner.learn
            if learn is not None:
                starts = {key: portion(one, axis, group) for key, one in learn.starts.values()}
                learn = learn.model_copy(update=starts)
            connection = connection.model_copy(update={"init": init, "learn": learn})
        connections[name] = connection
    return network.model_copy(update={"layers": layers, "connections": connections, "parallel": Parallel()})


def _range(connection: Connection, features: int, gathers: bool, group: Comm) -> FeatureRange:
    """Return the part of an identity from a split layer (`gathers`) or to one of these features."""
    count = features // group.size
    given = {name: getattr(connection, name) for name in Connection.model_fields}
    return FeatureRange(
        **given,
        first=group.rank * count,
        count=count,
        features=features if gathers else count,
        variable=connection.carries,
    )
