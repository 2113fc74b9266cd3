"""Steps of a GPU that are made layer by layer: whether they are captured as CUDA graphs and replayed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petabatch.network.gpu_rows import translated
from petabatch.network.graph import Graph
from petabatch.spec.parts import Layer

LONGEST = 64
"""Maximum period, in steps, of the ring buffers of histories and delays for which steps are captured."""


@dataclass(frozen=True)
class Capture:
    """Whether the launches of steps are the same, so that they can be replayed."""

    cycle: int
    """Steps after which launches repeat; 0 where they never do, or are too many."""
    reason: str = ""
    """Why they are not captured."""

    def __str__(self) -> str:
        """Return a clause for `petabatch check`."""
        if self.reason:
            return f"launched one by one, because {self.reason}"
        kinds = f"{self.cycle} kinds of them, by their places in histories"
        return f"captured as CUDA graphs and replayed: {kinds if self.cycle > 1 else 'each alike'}"


def capture(graph: Graph, alone: bool = True) -> Capture:
    """Return whether steps are captured; ranks that exchange sums within them are not `alone`."""
    if not alone:
        return Capture(0, "ranks exchange sums within each step")
    for name, layer in graph.network.layers.items():
        if reason := _differs(layer, graph):
            return Capture(0, f"{name} {reason}")
    lengths = [*graph.depth.values(), *(one.longest + 1 for one in graph.synapses.values())]
    cycle = math.lcm(*lengths)
    if cycle > LONGEST:
        return Capture(0, f"they repeat after {cycle:,} steps, and at most {LONGEST} are kept")
    return Capture(cycle)


def _differs(layer: Layer, graph: Graph) -> str:
    """Return why the update of a layer is another in each step, "" where it is not."""
    if layer.border == "image":
        return "sees the image around it, which each display replaces"
    if layer.controller is not None:
        return "has a time scale that is adapted between the steps"
    row = translated(layer, graph.network.run.precision)
    if row is not None:
        if row.draws:
            return "draws random numbers, which come from the host"
        return "is given the number of the step" if row.form.timed else ""
    if layer.host_numbers:
        return "is sent numbers from the host"
    return "" if layer.graph_safe else f"has an `update` that is not `graph_safe`: type {layer.type}"
