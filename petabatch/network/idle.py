"""Parts of a network without effect, and schedules that a run is too short for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from petabatch.clock import next_fire
from petabatch.network.events import read_by_synapses
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.silence import Silence


def without_effect(graph: Graph, silence: Silence) -> Iterator[str]:
    """Yield what can hardly be meant."""
    layers, connections = graph.network.layers, graph.network.connections
    for name, layer in layers.items():
        for key, reason in layer.unused.items():
            yield f"layers.{name}.{key}: it has no effect {reason}"
    for name, owner in graph.patched.items():
        p = owner.link(layers).patches
        covered = math.prod(min(1.0, axis.size / axis.stride) for axis in (p.y, p.x))
        if covered < 1:
            yield (
                f"connections.{name}.patch: patches of {p.y.size} x {p.x.size} units, one for every "
                f"{p.y.stride} x {p.x.stride} units of {owner.post}, leave {1 - covered:.0%} of them out"
            )
        rule = owner.normalize
        if rule is not None and not rule.at_start and (owner.learn is None or not rule.at_updates):
            yield f"connections.{name}.normalize: it has no effect at the start or at updates"
    for name in silence.weights:
        yield f"connections.{name}: its weights are all 0, and nothing changes them"
    for name, layer in layers.items():
        if layer.static:
            for edge in graph.edges[name]:
                yield f"connections.{edge.name}: it delivers nothing, since layers.{name} takes no input"
    posts = {connection.post for connection in connections.values()}
    for name in silence.layers:
        if name not in posts and layers[name].constant is None:
            yield f"layers.{name}: nothing is connected to it, and without input it stays 0"


def consequences(graph: Graph, silence: Silence) -> str:
    """Return what does nothing because something else does nothing, "" if there is no such thing."""
    idle = [name for name, one in graph.plastic.items() if one.learns and not silence.learns(name)]
    stay = [f"layers that stay 0 in all steps: {', '.join(silence.layers)}"] if silence.layers else []
    return "; ".join([*stay, *([f"weights that never learn: {', '.join(idle)}"] if idle else [])])


def unneeded(graph: Graph, silence: Silence) -> Iterator[str]:
    """Yield what does nothing, but may well be meant."""
    network = graph.network
    for edges in graph.edges.values():
        for edge in edges:
            if edge.factor == 0 and not silence.varies("connections", edge.name):
                yield f"connections.{edge.name}: it delivers nothing, since its strength is 0"
    used = {name for c in network.connections.values() for name in (c.borrows,) if name is not None}
    used |= {name for probe in network.probes.values() for name in probe.connections()}
    used |= set(network.output.connections) | set(graph.plastic) | set(graph.learning_synapses)
    for name, connection in network.connections.items():
        if connection.channel == "none" and name not in used:
            yield f"connections.{name}: it delivers nothing (channel = none), and nothing uses its weights"
    seen = {c.pre for c in network.connections.values()} | set(network.output.layers)
    seen |= {layer.reset_to for layer in network.layers.values() if layer.reset_to is not None}
    seen |= {against for pairs in graph.learning_pairs.values() for _, against in pairs}
    seen |= read_by_synapses(graph)
    for probe in network.probes.values():
        seen |= {*probe.layers(), *(mask for _, mask in probe.masks())}
    if unseen := [name for name in network.layers if name not in seen]:
        yield f"layers that nothing reads, and that no probe or output records: {', '.join(unseen)}"


def too_short(plan: Plan) -> Iterator[str]:
    """Yield the schedules that the run is too short for, but for those of recordings."""
    network, length = plan.graph.network, plan.length
    for edges in plan.graph.edges.values():
        for edge in edges:
            if edge.lookback >= length:
                yield f"the run is shorter than the delay of connections.{edge.name}, which delivers nothing"
    for update in plan.weight_updates:
        first = next_fire(update.period, 0, update.offset)
        if first is not None and first > length:
            yield f"the run is too short to learn: connections.{update.name} does at step {first:,} first"
    if plan.evaluation > length:
        yield f"the run is too short to evaluate: evaluate.every is {plan.evaluation:,} steps"
    for name, layer in network.layers.items():
        every, reset = (one.steps(network.run.display) for one in (layer.every, layer.restarts))
        due = math.lcm(every, reset)
        if due and due != reset:
            yield (
                f"layers.{name} is reset every {due:,} steps alone, where its updates (every {every:,}) and "
                f"its resets (every {reset:,}) fall together"
            )
