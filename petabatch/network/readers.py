"""Readers: layers without memory that nothing feeds back from, which only some steps of a run need."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from petabatch.network.events import read_by_synapses
from petabatch.network.graph import Graph
from petabatch.spec.compiled import CompiledRule, NotSuitable

_SELDOM = 8
"""Steps between measurements of a layer that nothing else reads, from which on it is made for those alone: a
run is then cut at them, which takes about as long as a step of a small network."""


def measured_layers(graph: Graph) -> set[str]:
    """Return the layers of which probes measure norms so often that programs make them in every step."""
    found: set[str] = set()
    for probe in graph.network.probes.values():
        if not 0 < probe.every.steps(graph.network.run.display) < _SELDOM:
            continue
        try:
            norms = probe.norms(graph.network.layers)
        except NotSuitable:
            continue
        found |= {term.layer for terms in norms.values() for term in terms}
    return found


def windows(graph: Graph, rules: Mapping[str, CompiledRule], measured: Collection[str]) -> dict[str, int]:
    """Return in how many of the last steps of a run each reader is needed; 0 for other layers: in all.

    A reader has no state, and only readers read it. `rules` are those of the layers that have one.
    """
    layers = graph.network.layers
    kept = {layer.reset_to for layer in layers.values()}
    kept |= set(measured)
    controllers = [layer.controller for layer in layers.values() if layer.controller is not None]
    kept |= {read for one in controllers for read in graph.network.probes[one.energy].layers()}
    kept |= {graph.network.connections[name].post for name in graph.delayed}  # pending spikes are state
    kept |= read_by_synapses(graph)
    followers: dict[str, list[tuple[str, int]]] = {name: [] for name in layers}
    for post, edges in graph.edges.items():
        for edge in edges:
            followers[edge.connection.pre].append((post, edge.lookback))
    found: dict[str, int] = {}
    for name in (name for level in reversed(graph.order) for name in level):
        rule, layer = rules.get(name), layers[name]
        plain = rule is not None and not rule.memory and name not in kept
        if not plain or any(not found.get(post) for post, _ in followers[name]):
            continue
        reach = [found[post] + lookback for post, lookback in followers[name]]
        # A layer that stands shows what it made up to a period ago.
        period = layer.every.steps(graph.network.run.display)
        if period:
            found[name] = max(graph.depth[name], *reach, 1) + period - 1
    return {name: found.get(name, 0) for name in layers}
