"""Which networks evaluate their code lazily, and what a slice remembers for that.

See `kernels/cpu/lazy/__init__.py` for the method. It is for the LCA of `layers/lca.py`, with a threshold
below which units are silent; its state goes on from step to step whatever is observed, so that observing
changes no bit.
It begins anew, from V, when weights have changed, or in a run that goes on from one of another kernel or
device. With `kernel = "auto"`, nobody sleeps while an image is shown at whose start many units are active.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from petabatch.errors import Problem
from petabatch.kernels.cpu.lazy.layout import padded_units
from petabatch.layers import LCA
from petabatch.network.loop import Loop, find_loop
from petabatch.spec.parts import Layer
from petabatch.variable import Array, Variable

if TYPE_CHECKING:
    from petabatch.network.graph import Graph

NAME = "lazy"
KEYS = tuple(f"{NAME}/{name}" for name in ("filtered", "history", "age"))
AWAKE = -1
"""The age that says: all units are computed until the next image is shown."""
MOST_ACTIVE = 0.15
"""Share of active units above which computing all units is faster; see `benchmarks/growth.py sparsity`."""
_LASTING = 0.5
"""Time constants for which an image must be shown to pay for the start; see `benchmarks/bench_lazy.py`."""
_LEAST = 1_000_000
"""Multiply-adds of a step below which `auto` computes all units: there is little to save (a guess)."""


def lazy_loop(graph: Graph) -> Loop | None:
    """Return the sparse-coding loop if its code is evaluated lazily, which the network alone decides."""
    run = graph.network.run
    if run.kernel not in ("auto", "lazy") or (run.precision, run.device) != ("float32", "cpu"):
        return None
    if graph.network.parallel.features > 1:
        return None
    loop = find_loop(graph, _can_sleep)
    if loop is None or not loop.shared:
        return None
    code, link = graph.network.layers[loop.code], graph.wirings[loop.dictionary].link
    assert isinstance(code, LCA)
    assert link is not None
    pays = run.display * run.dt >= _LASTING * code.tau and link.patches.multiply_adds >= _LEAST
    return loop if run.dt <= code.tau and (pays or run.kernel == "lazy") else None


def variables(graph: Graph) -> dict[str, Variable]:
    """Declare what a slice remembers, by key; nothing where nobody sleeps."""
    loop = lazy_loop(graph)
    if loop is None:
        return {}
    layers, dims, link = graph.network.layers, ("y", "x", "feature"), graph.wirings[loop.dictionary].link
    assert link is not None
    return {
        f"{NAME}/filtered": Variable("filtered", layers[loop.error].shape, dims, "error, filtered over time"),
        f"{NAME}/history": Variable(
            "history",
            (padded_units(link.patches),),
            ("unit",),
            "what V has beside the drive of the filtered error",
        ),
        f"{NAME}/age": Variable(
            "age",
            (),
            (),
            "steps since `history` was scaled; 0: begin anew from V; -1: nobody sleeps",
            dtype="int64",
        ),
    }


def goes_on(here: Mapping[str, Array], there: Mapping[str, Array]) -> bool:
    """Say whether slices can go on from what a checkpoint remembers; else they begin anew from V.

    They can't where another kernel made it, or a version of petabatch that kept it in another order.
    """
    return all(k in there and there[k].shape[1:] == here[k].shape[1:] for k in KEYS if k in here)


def check_kernel(graph: Graph) -> list[Problem]:
    """A kernel that is asked for by name must be able to run the network."""
    kernel = graph.network.run.kernel
    if kernel == "lazy" and lazy_loop(graph) is None:
        needed = "one sparse-coding loop in float32 with shared weights, its code of type lca with "
        needed += "dt <= tau, threshold > 0, minimum = 0, without vertices or time_scale"
    elif kernel == "dense" and (graph.network.run.precision != "float32" or find_loop(graph) is None):
        needed = "one sparse-coding loop in float32"
    else:
        return []
    hint = '"auto" takes the fastest kernel that can run it'
    return [Problem("run.kernel", "this kernel cannot run this network", kernel, needed, hint)]


def _can_sleep(layer: Layer) -> bool:
    return (
        type(layer) is LCA
        and (layer.vertices, layer.time_scale, layer.border) == (None, None, "zero")
        and layer.minimum == 0
        and layer.threshold > 0
    )
