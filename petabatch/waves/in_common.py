"""Key paths of what decides about weights and synapses that all slices have in common."""

from __future__ import annotations

from petabatch.network.graph import Graph
from petabatch.network.slices import synaptic_paths
from petabatch.spec.network import Network
from petabatch.weight_mode import over_slices


def paths_in_common(graph: Graph, network: Network) -> set[str]:
    """Return the key paths that are constant within a wave; `graph` is that of a point of a sweep."""
    shared = [name for name, one in graph.synapses.items() if over_slices(one.mode)]
    owners = graph.weighted.values()
    drawn = bool(shared) or any(over_slices(o.mode) for o in owners)
    found = {path for name in shared for path in synaptic_paths(network, name)}
    return found | ({"run.seed"} if drawn else set())
