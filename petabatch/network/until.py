"""Early stopping of displays, `[run.until]`: a slice stops when its code is certified to be near the optimum.

Each slice evaluates its relative duality gap at a fixed interval. Once the gap is small enough, the slice
stops: its state is held constant, at no cost, until the end of the display period. All schedules, files and
checkpoints count steps as if every display had its full length, and output and learning at the end of a
display see the converged code. A slice proceeds to its next image at once unless it must wait for an event
that involves other slices.
"""

from __future__ import annotations

import numpy as np

from petabatch.clock import Clock, next_fire
from petabatch.errors import Problem
from petabatch.network.checks import unknown
from petabatch.spec.network import Network, Until
from petabatch.variable import Variable

QUANTITY = "relative_gap"
"""Quantity of the probe that decides when to stop."""
NAME = "until"
"""Name of the results, among the probes."""
STEPS, GAP = f"{NAME}/steps", f"{NAME}/gap"
"""Keys of the state of early stopping."""


def variables(network: Network) -> dict[str, Variable]:
    """Declare the state of early stopping per slice, by key; empty without `until`."""
    if network.run.until is None:
        return {}
    return {
        STEPS: Variable("steps", (), (), "steps made for the present image", dtype="int64"),
        GAP: Variable(
            "gap",
            (),
            (),
            f"last {QUANTITY}; inf before the first",
            dtype="float64",
            initial=np.inf,
            infinite=True,
        ),
    }


def certificate(network: Network) -> str | None:
    """Return the name of the probe that decides when to stop, None if there is none or it is ambiguous."""
    until = network.run.until
    candidates = certificates(network)
    if until is None or (until.probe is None and len(candidates) != 1):
        return None
    name = candidates[0] if until.probe is None else until.probe
    return name if name in candidates else None


def certificates(network: Network) -> list[str]:
    """Return the names of the probes that measure the gap."""
    return [name for name, probe in network.probes.items() if QUANTITY in probe.quantities()]


def check_until(network: Network, problems: list[Problem]) -> None:
    """Check that there is one probe of the gap, and that images and weights are constant during a display."""
    run, clock = network.run, network.run.clock
    if run.until is None:
        return
    candidates = certificates(network)
    if run.until.probe is not None and run.until.probe not in candidates:
        problems.append(unknown("run.until.probe", "probe of optimality", run.until.probe, candidates))
    elif certificate(network) is None:
        problems.append(
            Problem(
                "run.until.probe",
                "several probes measure a duality gap" if candidates else "no probe measures a duality gap",
                found=", ".join(candidates) or "nothing",
                expected="the name of one of them" if candidates else "a probe of type optimality",
            )
        )
    if NAME in network.probes:
        problems.append(Problem(f"probes.{NAME}", "this name is reserved for the results of `run.until`"))
    for name, layer in network.layers.items():
        if layer.images is not None and (layer.offset or not clock.ends(layer.every.steps(run.display))):
            problems.append(
                Problem(
                    f"layers.{name}.every",
                    "with `run.until`, the image must not change during a display",
                    found=f"{layer.every}, offset {layer.offset}",
                    expected='"display", whole displays or "never", without offset',
                )
            )
    for name, connection in network.connections.items():
        rule = owner.learn if (owner := connection.patch_owner) is not None else None
        whole = rule is None or (clock.ends(rule.every.steps(run.display)) and clock.ends(rule.offset))
        if rule is not None and not whole:
            problems.append(
                Problem(
                    f"connections.{name}.learn.every",
                    "with `run.until`, weights must not change during a display",
                    found=f"{rule.every}, offset {rule.offset}",
                    expected='"display" or whole displays: updates at the end, from the converged codes',
                )
            )


def next_look(until: Until, clock: Clock, step: int) -> int:
    """Return the next step that evaluates the gap: at intervals, and the last of a display."""
    made = clock.under_way(step)
    following = next_fire(until.interval, made)
    assert following is not None
    return step - made + min(following, clock.display)
