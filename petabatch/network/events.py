"""Events of single synapses that learn, as operations at the end of a step."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.equations.synapses import CHANGE, SIDES
from petabatch.kernels.operations.fields import Source
from petabatch.network.arrivals import active_units
from petabatch.network.graph import Graph
from petabatch.network.operations import SynapticEvents


def synaptic_events(graph: Graph) -> Iterator[SynapticEvents]:
    """Yield what happens at synapses in a step: of each connection, at pre spikes, then at post spikes.

    A pre spike arrives `delay_steps` and the delay of the synapse after its step. What it delivers is taken
    up in the next step.
    """
    layers = graph.network.layers
    for name, synapses in graph.learning_synapses.items():
        connection, owner = graph.network.connections[name], graph.weighted[name]
        rule, key = owner.plasticity, f"connections/{name}"
        assert rule is not None
        held = synapses.per == "network"
        model = rule.model(synapses.delayed, held)
        factors = {
            word: (f"layers/{layer}/A", layers[layer].shape == (1, 1, 1))
            for word, layer in rule.factors.items()
        }
        for side in SIDES:
            if side not in model.synapses:
                continue
            pre = side == "pre"
            layer = connection.pre if pre else connection.post
            yield SynapticEvents(
                f"{key}/{'pending' if pre else CHANGE if held else 'weights'}",
                Source(f"layers/{layer}/A", connection.delay_steps if pre else 0),
                name, side, active_units(layer), rule, model, factors, graph.network.run.dt,
                longest=synapses.longest if pre and synapses.delayed else 0, delayed=synapses.delayed,
            )  # fmt: skip


def spiking(graph: Graph) -> set[str]:
    """Return the layers whose spikes are events of synapses."""
    found = set()
    for one in synaptic_events(graph):
        found.add(one.source.key.split("/")[1])
    return found


def read_by_synapses(graph: Graph) -> set[str]:
    """Return the layers that events read, and those to which they deliver."""
    read = {source.key for one in synaptic_events(graph) for source in one.reads}
    found = {key.split("/")[1] for key in read if key.startswith("layers/")}
    return found | {graph.network.connections[name].post for name in graph.learning_synapses}
