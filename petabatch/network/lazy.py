"""Lazy evaluation: the loops that qualify, and the variables that it adds to a slice, also of programs.

The method is explained in `kernels/cpu/lazy/__init__.py`. It is for a leaky code that is silent below a
positive threshold. The variables do not depend on what is observed, so that observing changes no bit. They
are reset from V when weights have changed, and when a run is resumed from one of another kernel or device.
With `kernel = "auto"` a slice computes all units during a display at whose start many are active.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from petabatch.kernels.cpu.sizes import LANES, padded_units
from petabatch.network.graph import Graph
from petabatch.network.lazy_codes import LASTING, LEAST, NAME
from petabatch.network.loop import Loop
from petabatch.network.operations import Program
from petabatch.network.over_time import changes_within_displays
from petabatch.spec.compiled import NotSuitable
from petabatch.variable import Array, Variable

KEYS = tuple(f"{NAME}/{name}" for name in ("filtered", "history", "age"))
AWAKE = -1
"""The age with which all units are computed until the next image is shown."""


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
    if changes_within_displays(graph.network, loop.code):
        raise NotSuitable(f"numbers of {loop.code} change within displays")
    if run.display * run.dt < LASTING * loop.rule.tau:
        raise NotSuitable("images are shown too briefly for units to sleep")
    if loop.patches.multiply_adds < LEAST:
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


def program_variables(graph: Graph, program: Program) -> dict[str, Variable]:
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
