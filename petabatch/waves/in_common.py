"""Key paths of what decides about weights and synapses that all slices have in common."""

from __future__ import annotations

from petabatch.network.graph import Graph
from petabatch.network.slices import synaptic_values
from petabatch.spec.network import Network


def paths_in_common(graph: Graph, network: Network) -> set[str]:
    """Return the key paths of which a wave has one value each; `graph` is that of a point of a sweep."""
    shared = [name for name, one in graph.synapses.items() if one.connected_per == "network"]
    owners = graph.weighted.values()
    drawn = bool(graph.synapses) or any(o.weights(network.layers).per == "network" for o in owners)
    found = {path for name in shared for path in synaptic_values(network, name)}
    return found | ({"run.seed"} if drawn else set())
