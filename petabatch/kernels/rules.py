"""The contract of the compiled code layers: the rules by number, their constants and their state.

`cpu/rules.py` and the CUDA kernels implement it, with T of `transfer.py`; nothing here needs a compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from petabatch.kernels.transfer import Curve
from petabatch.variable import Array

RULES = {"leaky": 0, "heavy_ball": 1, "momentum": 2, "gradient": 3, "accelerated": 4}
"""The rules of the layers LCA, HeavyBall, MomentumLCA, ISTA and FISTA by name, as `compiled_rule` gives it;
those of others, which CUDA does not have, are in `cpu/program/units.py`."""
LEAKY, HEAVY_BALL, MOMENTUM, GRADIENT, ACCELERATED = RULES.values()


def rule_number(name: str, rules: Mapping[str, int] = RULES) -> int:
    """Return the number of a rule; raises ValueError if there is none of this name."""
    if name not in rules:
        raise ValueError(f"there is no compiled rule {name!r}; known are {', '.join(sorted(rules))}")
    return rules[name]


class Cell(NamedTuple):
    """The numbers of an update of units by a rule."""

    rule: int
    self_interaction: np.float32
    """Factor on a unit's own activity in its drive, with GRADIENT on the sign of it."""
    inertia: np.float32
    """The beta of HEAVY_BALL, the rate of MOMENTUM."""
    e: np.float32
    """Factor on the potential; of rules without memory, on the input."""
    gain: np.float32
    dt: float
    tau: float
    """What e and gain follow from, which a time scale changes."""
    curve: Curve


class Units(NamedTuple):
    """The state of the units of a slice, each `[ny * nx * nf]` or empty where a rule does not need it."""

    A: Array
    """Activity."""
    V: Array
    """Membrane potential; of ACCELERATED, which has none, the activity of the step before the last."""
    before: Array
    """Of the step before: of HEAVY_BALL the potential, of MOMENTUM the pull, of ACCELERATED the drive."""
