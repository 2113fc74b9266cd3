"""The contract of the compiled code layers: the rules by number, their constants and their state.

`cpu/rules.py` and the CUDA kernels implement it; nothing here needs a compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from petabatch.variable import Array

LEAKY, HEAVY_BALL, MOMENTUM, GRADIENT, ACCELERATED = range(5)
"""Rules: of the layers LCA, HeavyBall, MomentumLCA, ISTA and FISTA."""
RULES = {
    "leaky": LEAKY,
    "heavy_ball": HEAVY_BALL,
    "momentum": MOMENTUM,
    "gradient": GRADIENT,
    "accelerated": ACCELERATED,
}
"""The rules by name, as a layer's `compiled_rule` gives it; names and numbers of others, which CUDA does not
have, are in `cpu/program/units.py`."""


def rule_number(name: str, rules: Mapping[str, int] = RULES) -> int:
    """Return the number of a rule; raises ValueError if there is none of this name."""
    if name not in rules:
        raise ValueError(f"there is no compiled rule {name!r}; known are {', '.join(sorted(rules))}")
    return rules[name]


class Cell(NamedTuple):
    """The constants of the membrane equation and the transfer function, in float32; see `cell`."""

    rule: int
    self_interaction: np.float32
    inertia: np.float32
    threshold: np.float32
    top: np.float32
    shift: np.float32
    slope: np.float32
    minimum: np.float32
    maximum: np.float32
    signed: bool
    line: bool


def cell(
    rule: int, self_interaction: float, inertia: float, threshold: float, shift: float, width: float = 0.0,
    minimum: float = 0.0, maximum: float = np.inf, signed: bool = False,
) -> Cell:  # fmt: skip
    """Return the constants of a rule and of A = T(V); for T see `layers/transfer.py`.

    `self_interaction` is the factor on a unit's own activity in its drive, with GRADIENT on the sign of it;
    `inertia` is the beta of HEAVY_BALL and the rate of MOMENTUM.
    """
    slope = (threshold + width - shift - minimum) / width if width > 0 else 0.0
    f = np.float32
    return Cell(
        rule, f(self_interaction), f(inertia), f(threshold), f(threshold + width), f(shift), f(slope),
        f(minimum), f(maximum), signed, width > 0,
    )  # fmt: skip


class Units(NamedTuple):
    """The state of the units of a slice, each `[ny * nx * nf]` or empty where a rule does not need it."""

    A: Array
    """Activity."""
    V: Array
    """Membrane potential; of ACCELERATED, which has none, the activity of the step before the last."""
    before: Array
    """Of the step before: of HEAVY_BALL the potential, of MOMENTUM the pull, of ACCELERATED the drive."""
