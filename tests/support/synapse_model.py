"""Synapses that learn in plain loops, float64, written from `docs/spikes.md` and not from our code.

Each synapse has all variables of its own, and traces decay in every step. `eval` and `exec` read the texts:
the language of rules is a subset of Python's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FUNCTIONS = {
    "exp": math.exp,
    "abs": abs,
    "min": min,
    "max": max,
    "int": int,
    "clip": lambda x, low, high: min(max(x, low), high),
}


@dataclass
class Synapse:
    """A synapse, with the delay of its own in steps."""

    pre: int
    post: int
    weight: float
    delay: int = 0
    start: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Found:
    """Weights and variables after each step, `[steps, synapses]`, and what arrives in the next one."""

    weights: np.ndarray
    variables: dict[str, np.ndarray]
    arrives: np.ndarray


def simulate(
    rule: Mapping[str, Any],
    synapses: list[Synapse],
    pre: np.ndarray,
    post: np.ndarray,
    dt: float,
    delay_steps: int = 0,
    factors: Mapping[str, np.ndarray] = {},
) -> Found:
    """Return what becomes of synapses, given the spikes `[steps, units]` of both layers.

    `factors` are the activities of other layers, `[steps, 1]` or `[steps, post units]`.
    """
    traces, bounds = rule.get("traces", {}), rule.get("bounds")
    names = [*traces, *rule.get("variables", ())]
    steps = len(pre)
    found = Found(
        np.zeros((steps, len(synapses))), {n: np.zeros((steps, len(synapses))) for n in names},
        np.zeros((steps, post.shape[1])),
    )  # fmt: skip
    known: list[dict[str, Any]] = [
        {"w": one.weight, **dict.fromkeys(names, 0.0), **one.start} for one in synapses
    ]

    def event(number: int, text: str | None, step: int) -> float:
        own, one = known[number], synapses[number]
        given = {**FUNCTIONS, **rule.get("parameters", {}), "t": step * dt, "dt": dt}
        for name, activity in factors.items():
            given[name] = activity[step, one.post if activity.shape[1] > 1 else 0]
        values = {**own, "delivered": own["w"]}
        lines = [line.strip() for line in (text or "").replace("\n", ";").split(";")]
        for line in filter(None, lines):
            exec(line, given, values)
        own |= {name: values[name] for name in own}
        if bounds is not None and any(re.match(r"w\s*[-+*/]?=", line) for line in lines):
            own["w"] = min(max(own["w"], bounds[0]), bounds[1])
        return float(values["delivered"])

    for step in range(steps):
        for own in known:
            for name, tau in traces.items():
                own[name] *= math.exp(-dt / tau)
        for number, one in enumerate(synapses):
            spiked = step - delay_steps - one.delay
            if spiked >= 0 and pre[spiked, one.pre]:
                found.arrives[step, one.post] += pre[spiked, one.pre] * event(
                    number, rule.get("on_pre"), step
                )
        for number, one in enumerate(synapses):
            if post[step, one.post] and rule.get("on_post"):
                event(number, rule["on_post"], step)
        found.weights[step] = [own["w"] for own in known]
        for name in names:
            found.variables[name][step] = [own[name] for own in known]
    return found
