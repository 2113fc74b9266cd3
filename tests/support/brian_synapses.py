"""What Brian2 makes of synapses that learn, for `tests/learning/test_brian_synapses.py`.

uv venv /tmp/brian && uv pip install -p /tmp/brian brian2 'numpy<2.4'
/tmp/brian/bin/python tests/support/brian_synapses.py tests/data/brian_synapses.npz
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

DT, STEPS, UNITS, SYNAPSES = 0.1, 3000, (50, 40), 1000
LATEST = 30
"""Longest delay, in steps."""
RATES = 0.004
"""Spikes of a unit in a step."""


class Rule(NamedTuple):
    """A rule in the words of both programs."""

    traces: dict[str, float]
    on_pre: str
    on_post: str
    parameters: dict[str, float]
    bounds: tuple[float, float]


RULES = {
    "pair": Rule(
        {"x": 20.0, "y": 15.0}, "x += 1; w -= a * y", "y += 1; w += b * x",
        {"a": 0.021, "b": 0.02}, (0.0, 1.0),
    ),
    "dependent": Rule(
        {"x": 20.0, "y": 15.0}, "x += 1; w -= a * w * y", "y += 1; w += b * (1 - w)**0.4 * x",
        {"a": 0.1, "b": 0.08}, (0.0, 1.0),
    ),
    "triplet": Rule(
        {"x1": 16.8, "x2": 101.0, "y1": 33.7, "y2": 125.0},
        "w -= y1 * (a2 + a3 * x2); x1 += 1; x2 += 1", "w += x1 * (b2 + b3 * y2); y1 += 1; y2 += 1",
        {"a2": 0.007, "a3": 0.0023, "b2": 0.005, "b3": 0.0062}, (0.0, 1.0),
    ),
}  # fmt: skip


class Given(NamedTuple):
    """Synapses and spikes."""

    pre: np.ndarray
    post: np.ndarray
    weights: np.ndarray
    delays: np.ndarray
    """In steps."""
    spikes: tuple[np.ndarray, np.ndarray]
    """Of both layers, rows of step, from 0, and unit."""


def given() -> Given:
    """Return what is drawn for all rules."""
    rng = np.random.default_rng(5)
    pairs = np.sort(rng.choice(UNITS[0] * UNITS[1], SYNAPSES, replace=False))
    pre, post = np.divmod(pairs, UNITS[1])
    spikes = tuple(np.argwhere(rng.random((STEPS, units)) < RATES) for units in UNITS)
    weights, delays = rng.uniform(0.2, 0.8, SYNAPSES), rng.integers(0, LATEST + 1, SYNAPSES)
    return Given(pre, post, weights, delays, (spikes[0], spikes[1]))


def simulate() -> dict[str, np.ndarray]:
    """Return the weights of each rule at the end, with delays and without."""
    import brian2 as b

    b.prefs.codegen.target = "numpy"
    b.defaultclock.dt = DT * b.ms
    what, found = given(), dict[str, np.ndarray]()
    for name, rule in RULES.items():
        for delayed in (False, True):
            found[f"{name} {'delayed' if delayed else 'at once'}"] = _weights(b, what, rule, delayed)
    return found


def _weights(b: Any, what: Given, rule: Rule, delayed: bool) -> np.ndarray:
    groups = [
        b.SpikeGeneratorGroup(units, spikes[:, 1], spikes[:, 0] * DT * b.ms)
        for units, spikes in zip(UNITS, what.spikes, strict=True)
    ]
    lines = [
        "w : 1",
        *(f"d{n}/dt = -{n} / ({tau} * ms) : 1 (event-driven)" for n, tau in rule.traces.items()),
    ]
    bound = f"; w = clip(w, {rule.bounds[0]}, {rule.bounds[1]})"
    on_pre, on_post = (f"{text}{bound}".replace("; ", "\n") for text in (rule.on_pre, rule.on_post))
    synapses = b.Synapses(
        *groups, "\n".join(lines), on_pre=on_pre, on_post=on_post, namespace=dict(rule.parameters)
    )
    synapses.connect(i=what.pre, j=what.post)
    synapses.w = what.weights
    if delayed:
        synapses.pre.delay = what.delays * DT * b.ms
    b.Network(*groups, synapses).run(STEPS * DT * b.ms)
    return np.array(synapses.w)


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], **simulate())  # type: ignore[arg-type]
