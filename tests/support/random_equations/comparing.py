"""Steps of layers compared with those of the model: what is more than rounding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.random_equations.expressions import Inputs, Layer
from support.random_equations.steps import Step

FEW, MANY = 3, 250
"""Evaluations of the model with errors of rounding: at first, and where something differs."""


@dataclass
class Outcome:
    """What became of layers."""

    words: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    """Numbers of units that were compared, by executor."""
    decided: int = 0
    """Steps that differ from the model by what errors of rounding explain."""
    wrong: list[str] = field(default_factory=list)


def evaluations(layer: Layer, given: Inputs, real: Any, count: int, seed: int) -> dict[str, np.ndarray]:
    """Return what the model has, in float64, in the precision, and with errors of rounding."""
    exact = [Step(layer, given, np.float64, None, variant=n) for n in (0, 1)]
    plain = [Step(layer, given, real, None, variant=n) for n in (0, 1)]
    rngs = [np.random.default_rng([seed, n]) for n in range(count)]
    made = [
        step()
        for step in (
            *exact,
            *plain,
            *(Step(layer, given, real, g, variant=n % 2) for n, g in enumerate(rngs)),
        )
    ]
    shape = given.left.shape
    return {
        key: np.stack([np.broadcast_to(one[key], shape).astype(float) for one in made]) for key in made[0]
    }


def outside(found: np.ndarray, model: np.ndarray, scale: np.ndarray, eps: float) -> np.ndarray:
    """Return which numbers are not among those of the model, and further from them than these are apart."""
    low, high = np.fmin.reduce(model), np.fmax.reduce(model)
    with np.errstate(all="ignore"):
        apart, size = high - low, np.fmax(abs(low), abs(high))
        slack = 2 * np.where(np.isfinite(apart), apart, 0) + 8 * eps * np.where(np.isfinite(size), size, 0)
        slack += scale * eps + 1e-44
        among = (found >= low - slack) & (found <= high + slack) | (found == low) | (found == high)
    return np.where(np.isnan(found), ~np.isnan(model).any(axis=0), ~among)


def compare(
    outcome: Outcome, where: str, layer: Layer, given: Inputs, found: Mapping[str, np.ndarray], real: Any
) -> None:
    """Compare a step with that of the model."""
    eps = float(np.finfo(real).eps)
    parts = np.stack([*given.state.values(), *(found[name] for name in layer.rates)]).astype(float)
    parts = np.where(np.isfinite(parts), abs(parts), 0).max(axis=0)
    linear = layer.method in ("exact", "exponential_euler")  # which cancel what is large
    scale = 64 * parts if linear else np.zeros_like(parts)
    for count in (FEW, MANY):
        with np.errstate(all="ignore"):
            model = evaluations(layer, given, real, count, 0)
        bad = {key: outside(np.asarray(found[key], float), model[key], scale, eps) for key in model}
        if not any(one.any() for one in bad.values()):
            outcome.decided += count == MANY
            outcome.steps[where] += given.left.size
            return
    for key, one in bad.items():
        for place in list(zip(*np.nonzero(one), strict=True))[:2]:
            numbers = {
                name: float(np.asarray(some)[place]) for name, some in {**given.state, **given.units}.items()
            }
            right = np.unique(model[key][(slice(None), *place)])[:3]
            outcome.wrong.append(
                f"{where}: {key} {found[key][place]!r}, model {right} "
                f"t {given.t!r} dt {given.dt} of {numbers}"
            )
