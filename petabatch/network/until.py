"""Displays that end, slice by slice, when a code is certified to be near its optimum: `[run] until`.

A slice looks at its relative duality gap every so many steps. Once it is small enough the slice rests: its
whole state stands until the display ends, and costs nothing. So all schedules, files and checkpoints count
steps as if every display had its full length, and what is recorded or learned at a display's end is that of
the finished code. Slices that wait for nothing that crosses slices take their next image at once.
"""

from __future__ import annotations

import numpy as np

from petabatch.errors import Problem
from petabatch.network.checks import unknown
from petabatch.spec.network import Network, Until
from petabatch.variable import Variable

QUANTITY = "relative_gap"
"""What a probe must measure to end displays."""
NAME = "until"
"""What the results are recorded as, among the probes."""


def variables(network: Network) -> dict[str, Variable]:
    """Declare what a slice remembers of its image, by key; nothing without `until`."""
    if network.run.until is None:
        return {}
    return {
        f"{NAME}/steps": Variable("steps", (), (), "steps made for the image shown", dtype="int64"),
        f"{NAME}/gap": Variable(
            "gap", (), (), f"{QUANTITY} when last looked at; inf before", dtype="float64", initial=np.inf
        ),
    }


def certificate(network: Network) -> str | None:
    """Return the name of the probe that ends displays; None where it is not one clear probe."""
    until = network.run.until
    able = certificates(network)
    if until is None or (until.probe is None and len(able) != 1):
        return None
    name = able[0] if until.probe is None else until.probe
    return name if name in able else None


def certificates(network: Network) -> list[str]:
    """Return the names of the probes that could end displays."""
    return [name for name, probe in network.probes.items() if QUANTITY in probe.quantities()]


def check_until(network: Network, problems: list[Problem]) -> None:
    """There is one certificate, and nothing changes in a display under a slice that rests."""
    run = network.run
    if run.until is None:
        return
    able = certificates(network)
    if run.until.probe is not None and run.until.probe not in able:
        problems.append(unknown("run.until.probe", "probe of optimality", run.until.probe, able))
    elif certificate(network) is None:
        problems.append(
            Problem(
                "run.until.probe",
                "which probe says that a code is near its optimum?" if able else "no probe measures a gap",
                found=", ".join(able) or "nothing",
                expected="one of them" if able else "a probe of type optimality",
            )
        )
    if NAME in network.probes:
        problems.append(Problem(f"probes.{NAME}", "`run.until` records its results under this name"))
    for name, layer in network.layers.items():
        if layer.images is not None and (layer.every.steps(run.display) % run.display or layer.offset):
            problems.append(
                Problem(
                    f"layers.{name}.every",
                    "the image would change in a display that ends with the code of one image",
                    found=f"{layer.every}, offset {layer.offset}",
                    expected='"display", whole displays or "never", without offset',
                )
            )
    for name, connection in network.connections.items():
        rule = connection.owner.learn if connection.owner is not None else None
        if rule is not None and (rule.every.steps(run.display) % run.display or rule.offset % run.display):
            problems.append(
                Problem(
                    f"connections.{name}.learn.every",
                    "weights would change in a display, under slices that rest",
                    found=f"{rule.every}, offset {rule.offset}",
                    expected='"display" or whole displays: updates at the end, from the finished codes',
                )
            )


def next_look(until: Until, display: int, step: int) -> int:
    """Return the next step at whose end slices look: every so many of a display, and its last."""
    made = step % display
    return step - made + min(made - made % until.every + until.every, display)
