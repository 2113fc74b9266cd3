"""Lazily evaluated codes: which layers qualify, by which connections, and what a slice keeps of them.

The method is explained in `kernels/cpu/program/lazy/__init__.py`. It is for leaky codes that are silent
below a positive threshold; what does not come through patches (one-to-one inputs, pools, reconstructions) is
computed as ever. What a slice keeps does not depend on what is observed, so that observing changes no bit.
It is reset from V when weights have changed, and when a run is resumed from one of another kernel or device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from petabatch.kernels.cpu.sizes import LANES
from petabatch.kernels.transfer import Polyline
from petabatch.network.graph import Edge, Graph
from petabatch.network.operations import Program
from petabatch.network.over_time import changes_within_displays
from petabatch.network.shares import ALL
from petabatch.spec.compiled import CompiledRule, NotSuitable
from petabatch.variable import Array, Variable

NAME = "lazy"
"""The first part of the keys of what a slice keeps for lazy evaluation."""
MOST_ACTIVE = 0.15
"""Share of active units above which computing all units is faster; see `benchmarks/growth.py sparsity`."""
LASTING = 0.5
"""Time constants for which an image must be shown to pay for the start."""
LEAST = 1_000_000
"""Multiply-adds of a step below which `auto` computes all units: there is little to save (a guess)."""
DOUBLE = "run.precision is float64, and lazy evaluation is float32"
"""Why a code is not lazily evaluated that would be in float32."""
_SHORT = 64
"""Weights of a patch below which a product costs no more than the test whether it is needed."""


def lazy_codes(graph: Graph) -> dict[str, str]:
    """Return the codes of a network, and why all units of one are computed: nothing if it can be lazy."""
    found = {}
    for name, layer in graph.network.layers.items():
        try:
            rule = layer.compiled_rule() if not layer.static else None
        except NotSuitable:
            continue
        if rule is not None and rule.potential:
            found[name] = ""
            try:
                _check(graph, name, rule)
            except NotSuitable as reason:
                found[name] = str(reason)
    return found


def lazy_edges(graph: Graph, name: str) -> list[Edge]:
    """Return the connections of a layer whose products can be lazily evaluated."""
    return [
        edge
        for edge in graph.edges[name]
        if edge.plain_patches is not None and edge.buffer == 0 and not _kept(graph, edge)
    ]


def _kept(graph: Graph, edge: Edge) -> bool:
    """Return whether what arrives is cut out of what several ranks have, or of the whole, or gathered."""
    rows = graph.tiling.shares.get(edge.name, ALL)
    return graph.shares.get(edge.name, ALL).keeps or rows.keeps or rows.completes


def _check(graph: Graph, name: str, rule: CompiledRule) -> None:
    """Raise NotSuitable when a code is not to be lazily evaluated."""
    run, layer, edges = graph.network.run, graph.network.layers[name], lazy_edges(graph, name)
    if run.kernel == "dense":
        raise NotSuitable('run.kernel is "dense"')
    readers = [other for other, one in graph.network.layers.items() if one.reset_to == name]
    carriers = [
        other for other, one in graph.network.connections.items() if one.pre == name and one.carries != "A"
    ]
    refused = {
        f"lazy evaluation is for codes of type lca, not {layer.type}": rule.name != "leaky",
        "its transfer function has vertices": isinstance(rule.curve, Polyline),
        "it is not silent below a positive threshold": rule.curve.silent <= 0,
        "it does not update in every step": layer.every.steps(run.display) != 1,
        f"{', '.join(readers)} is reset to its potential": bool(readers),
        f"{', '.join(carriers)} delivers its potential": bool(carriers),
        "nothing drives it by patches": not edges,
    }
    if run.kernel != "lazy":
        patches = [edge.plain_patches for edge in edges if edge.plain_patches is not None]
        shown = run.clock.time(run.display)
        refused |= {
            "images are shown too briefly for units to sleep": shown < LASTING * rule.tau,
            "there is little to save in layers this small": sum(p.multiply_adds for p in patches) < LEAST,
            "its numbers change within displays": changes_within_displays(graph.network, name),
            "its patches are small": all(p.length < _SHORT for p in patches),
        }
    refused[DOUBLE] = run.precision != "float32"
    for reason, found in refused.items():
        if found:
            raise NotSuitable(reason)


def variables(graph: Graph, program: Program) -> dict[str, Variable]:
    """Declare what a slice keeps for the lazily evaluated codes of a program, by key."""
    found = {}
    for one in program.lazy:
        shape = graph.network.layers[one.layer].shape
        potential = "what V has in addition to the drives of filtered layers, divided by `decay`"
        found[one.history] = Variable("history", shape, ("y", "x", "feature"), potential)
        for drive in one.drives:
            p = drive.patches
            size = p.y.padded * p.x.padded * p.channels + LANES
            text = f"{drive.source.key.partition('/')[2]}, filtered over time"
            found[drive.key] = Variable("filtered", (size,), ("unit",), text)
        text = "factor on `history`; 0: V is up to date, and the code starts from it"
        found[one.decay] = Variable("decay", (), (), text, dtype="float64")
        text = "1: all units are computed until the next display"
        found[one.awake] = Variable("awake", (), (), text, dtype="int64")
    return found


def keys(*arrays: Iterable[str]) -> set[str]:
    """Return the keys among these of what is kept for lazy evaluation."""
    return {key for some in arrays for key in some if key.startswith(f"{NAME}/")}


def continues(here: Mapping[str, Array], there: Mapping[str, Array]) -> bool:
    """Return whether slices can continue from what a checkpoint keeps; else they restart from V.

    They cannot if it was written by another kernel, or by a version of petabatch with another layout.
    """
    return all(k in there and there[k].shape[1:] == here[k].shape[1:] for k in keys(here))
