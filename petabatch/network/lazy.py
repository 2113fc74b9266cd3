"""Lazy evaluation: the loops that qualify, and the variables that it adds to a slice.

The method is explained in `kernels/cpu/lazy/__init__.py`. It is for a leaky code that is silent below a
positive threshold. The variables do not depend on what is observed, so that observing changes no bit. They
are reset from V when weights have changed, and when a run is resumed from one of another kernel or device.
With `kernel = "auto"` a slice computes all units during a display at whose start many are active.
"""

from __future__ import annotations

from collections.abc import Mapping

from petabatch.kernels.cpu.lazy.layout import padded_units
from petabatch.network.graph import Graph
from petabatch.network.loop import Loop
from petabatch.spec.compiled import NotSuitable
from petabatch.variable import Array, Variable

NAME = "lazy"
KEYS = tuple(f"{NAME}/{name}" for name in ("filtered", "history", "age"))
AWAKE = -1
"""The age with which all units are computed until the next image is shown."""
MOST_ACTIVE = 0.15
"""Share of active units above which computing all units is faster; see `benchmarks/growth.py sparsity`."""
_LASTING = 0.5
"""Time constants for which an image must be shown to pay for the start; see `benchmarks/bench_lazy.py`."""
_LEAST = 1_000_000
"""Multiply-adds of a step below which `auto` computes all units: there is little to save (a guess)."""


def check_lazy(graph: Graph, loop: Loop) -> None:
    """Raise NotSuitable when the code of a loop cannot be evaluated lazily."""
    run, rule = graph.network.run, loop.rule
    refused = {
        f"lazy evaluation is for codes of type lca, not {graph.network.layers[loop.code].type}": rule.name
        != "leaky",
        f"{loop.code}.time_scale adapts the step size": rule.scale is not None,
        f"{loop.code} is not silent below a positive threshold": rule.minimum != 0 or rule.threshold <= 0,
        "each unit has weights of its own": not loop.patches.shared,
        f"run.dt is larger than {loop.code}.tau": run.dt > rule.tau,
    }
    for reason, found in refused.items():
        if found:
            raise NotSuitable(reason)


def check_pays(graph: Graph, loop: Loop) -> None:
    """Raise NotSuitable when lazy evaluation would save less than it costs."""
    run = graph.network.run
    if run.display * run.dt < _LASTING * loop.rule.tau:
        raise NotSuitable("images are shown too briefly for units to sleep")
    if loop.patches.multiply_adds < _LEAST:
        raise NotSuitable("there is little to save in layers this small")


def variables(graph: Graph, loop: Loop) -> dict[str, Variable]:
    """Declare what a slice keeps, by key."""
    dims = ("y", "x", "feature")
    error = graph.network.layers[loop.error].shape
    return {
        f"{NAME}/filtered": Variable("filtered", error, dims, "error, filtered over time"),
        f"{NAME}/history": Variable(
            "history",
            (padded_units(loop.patches),),
            ("unit",),
            "what V has in addition to the drive of the filtered error",
        ),
        f"{NAME}/age": Variable(
            "age",
            (),
            (),
            "steps since `history` was scaled; 0: restart from V; -1: all units are computed",
            dtype="int64",
        ),
    }


def continues(here: Mapping[str, Array], there: Mapping[str, Array]) -> bool:
    """Return whether slices can continue from what a checkpoint keeps; else they restart from V.

    They cannot if it was written by another kernel, or by a version of petabatch with another layout.
    """
    return all(k in there and there[k].shape[1:] == here[k].shape[1:] for k in KEYS if k in here)
