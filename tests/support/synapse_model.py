"""Synapses that learn in plain loops, float64, written from `docs/spikes.md` and not from our code.

Each synapse has all variables of its own, and traces decay in every step. `eval` and `exec` read the texts:
the language of rules is a subset of Python's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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

    weights: list[list[float]]
    variables: dict[str, list[list[float]]]
    arrives: list[np.ndarray]


class Slice:
    """The synapses of a slice, from step to step."""

    def __init__(
        self,
        rule: Mapping[str, Any],
        synapses: Sequence[Synapse],
        pre: np.ndarray,
        post: np.ndarray,
        dt: float,
        delay_steps: int = 0,
        factors: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> None:
        """Take the spikes `[steps, units]` of both layers.

        `factors` are the activities of other layers, `[steps, 1]` or `[steps, post units]`.
        """
        self.rule, self.synapses, self.dt, self.delay_steps = rule, synapses, dt, delay_steps
        self.pre, self.post, self.factors = pre, post, factors
        self.names = [*rule.get("traces", {}), *rule.get("variables", ())]
        self.known: list[dict[str, Any]] = [
            {"w": one.weight, **dict.fromkeys(self.names, 0.0), **one.start} for one in synapses
        ]
        self.held: list[float] | None = None
        """The weights that are delivered, where they stand still between updates."""

    def event(self, number: int, text: str | None, step: int) -> float:
        """Make an event of a synapse; return what it delivers."""
        own, one, rule = self.known[number], self.synapses[number], self.rule
        given = {**FUNCTIONS, **rule.get("parameters", {}), "t": step * self.dt, "dt": self.dt}
        for name, activity in self.factors.items():
            given[name] = activity[step, one.post if activity.shape[1] > 1 else 0]
        held = own["w"] if self.held is None else self.held[number]
        values = {**own, "delivered": held}
        lines = [line.strip() for line in (text or "").replace("\n", ";").split(";")]
        for line in filter(None, lines):
            if self.held is not None and line.startswith("delivered"):
                seen = {**values, "w": held}
                exec(line, given, seen)
                values["delivered"] = seen["delivered"]
            else:
                exec(line, given, values)
        own |= {name: values[name] for name in own}
        bounds = rule.get("bounds")
        if bounds is not None and any(re.match(r"w\s*[-+*/]?=", line) for line in lines):
            own["w"] = min(max(own["w"], bounds[0]), bounds[1])
        return float(values["delivered"])

    def step(self, step: int) -> np.ndarray:
        """Make the events at the end of a step, from 0; return what arrives in the next."""
        arrives = np.zeros(self.post.shape[1])
        for own in self.known:
            for name, tau in self.rule.get("traces", {}).items():
                own[name] *= math.exp(-self.dt / tau)
        for number, one in enumerate(self.synapses):
            spiked = step - self.delay_steps - one.delay
            if spiked >= 0 and self.pre[spiked, one.pre]:
                carried = self.event(number, self.rule.get("on_pre"), step)
                arrives[one.post] += self.pre[spiked, one.pre] * carried
        for number, one in enumerate(self.synapses):
            if self.post[step, one.post] and self.rule.get("on_post"):
                self.event(number, self.rule["on_post"], step)
        return arrives


def simulate(several: Sequence[Slice], every: int | None = None) -> list[Found]:
    """Return what becomes of the synapses of some slices.

    With `every`, weights are those of all slices, and stand still for so many steps.
    """
    steps = len(several[0].pre)
    found = [Found([], {name: [] for name in one.names}, []) for one in several]
    for one in several:
        one.held = [own["w"] for own in one.known] if every else None
    for step in range(steps):
        for one, mine in zip(several, found, strict=True):
            mine.arrives.append(one.step(step))
        if every and (step + 1) % every == 0:
            add_changes(several)
        for one, mine in zip(several, found, strict=True):
            mine.weights.append(one.held or [own["w"] for own in one.known])
            for name in one.names:
                mine.variables[name].append([own[name] for own in one.known])
    return found


def add_changes(several: Sequence[Slice]) -> None:
    """Add the changes of all slices to the weights, and clip these."""
    held = several[0].held
    assert held is not None
    bounds = several[0].rule.get("bounds") or (-math.inf, math.inf)
    total = [sum(one.known[n]["w"] - held[n] for one in several) for n in range(len(held))]
    new = [min(max(w + change, bounds[0]), bounds[1]) for w, change in zip(held, total, strict=True)]
    for one in several:
        one.held = list(new)
        for own, w in zip(one.known, new, strict=True):
            own["w"] = w
