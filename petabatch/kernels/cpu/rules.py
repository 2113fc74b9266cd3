"""The membrane update and transfer function of each kind of code layer, compiled.

Each function is the twin of the `update` of a layer in `layers/`, on a row of units; `update` dispatches on
the cell's rule. They take the drive and leave the new activity in its place. The rules and their constants
are declared in `kernels/rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.sums import wide_dot
from petabatch.kernels.rules import ACCELERATED, GRADIENT, HEAVY_BALL, LEAKY, MOMENTUM, Cell

RULES = {
    "leaky": LEAKY,
    "heavy_ball": HEAVY_BALL,
    "momentum": MOMENTUM,
    "gradient": GRADIENT,
    "accelerated": ACCELERATED,
}
"""The rules by name, as a layer's `compiled_rule` gives it; those that CUDA has too are numbered in
`kernels/rules.py`, others here. Names and numbers differ from those in `program/units.py`."""


def rule_number(name: str, rules: Mapping[str, int] = RULES) -> int:
    """Return the number of a rule; raises ValueError if there is none of this name."""
    if name not in rules:
        raise ValueError(f"there is no compiled rule {name!r}; known are {', '.join(sorted(rules))}")
    return rules[name]


FAST = {"nsz", "contract"}
"""Assumptions for fast kernels: enough for fused multiply-adds, not that all is finite. No sum may be made in
another order, so that bits depend on no processor; `sums.py` has sums in vectors.
"""
ZERO = np.float32(0)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def transfer(u: Any, c: Cell) -> Any:
    """Return the activity of a membrane potential."""
    size = abs(u) if c.signed else u
    a = size - c.shift
    if c.line:
        a = c.minimum + c.slope * (size - c.threshold) if size < c.top else a
    a = c.maximum if a > c.maximum else a
    a = c.minimum if size < c.threshold else a
    return (a if u >= ZERO else -a) if c.signed else a


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def add_self_interaction(drive: Any, A: Any, c: Cell) -> None:
    """Add the self-interaction of each unit to its drive."""
    for i in range(drive.size):
        drive[i] += c.self_interaction * A[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def add_sign(drive: Any, A: Any, c: Cell) -> None:
    """Add the self-interaction with the sign of each unit's activity to its drive."""
    for i in range(drive.size):
        a = A[i]
        drive[i] += c.self_interaction if a > ZERO else (-c.self_interaction if a < ZERO else ZERO)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def leaky(drive: Any, V: Any, e: Any, gain: Any, c: Cell) -> None:
    """LEAKY: V = e V + gain drive. GRADIENT: the same with e = 1."""
    for i in range(V.size):
        u = e * V[i] + gain * drive[i]
        V[i] = u
        drive[i] = transfer(u, c)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def heavy_ball(drive: Any, V: Any, before: Any, e: Any, gain: Any, c: Cell) -> None:
    """HEAVY_BALL: V+ = e V + gain drive + inertia (V - V before)."""
    for i in range(V.size):
        u = e * V[i] + gain * drive[i] + c.inertia * (V[i] - before[i])
        before[i] = V[i]
        V[i] = u
        drive[i] = transfer(u, c)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def momentum_lca(drive: Any, V: Any, before: Any, e: Any, gain: Any, c: Cell) -> None:
    """MOMENTUM: V = e V + pull + inertia (pull before) with pull = gain drive."""
    for i in range(V.size):
        pull = gain * drive[i]
        u = e * V[i] + pull + c.inertia * before[i]
        before[i] = pull
        V[i] = u
        drive[i] = transfer(u, c)


@njit(nogil=True, error_model="numpy")
def update(drive: Any, A: Any, V: Any, before: Any, e: Any, gain: Any, c: Cell) -> None:
    """Make one membrane update of a row of units by the cell's rule."""
    if c.rule == GRADIENT:
        add_sign(drive, A, c)
    else:
        add_self_interaction(drive, A, c)
    if c.rule == HEAVY_BALL:
        heavy_ball(drive, V, before, e, gain, c)
    elif c.rule == MOMENTUM:
        momentum_lca(drive, V, before, e, gain, c)
    elif c.rule == LEAKY or c.rule == GRADIENT:
        leaky(drive, V, e, gain, c)
    else:  # a rule without a branch ends the run: its layer is no longer finite
        drive[:] = np.nan


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def compare(drive: Any, A: Any, V: Any, before: Any, turned: Any) -> tuple[float, float]:
    """ACCELERATED: write the change of the drive since the last step; return |A - V|^2, |change|^2."""
    for i in range(drive.size):
        turned[i] = A[i] - V[i]
    moves = wide_dot(turned, turned)
    for i in range(drive.size):
        turned[i], before[i] = drive[i] - before[i], drive[i]
    return moves, wide_dot(turned, turned)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def accelerate(
    moved: Any, A: Any, V: Any, drive: Any, turned: Any, momentum: Any, k: Any, c: Cell
) -> Any:  # fmt: skip
    """ACCELERATED: A+ = shrink(y + k drive(y), k threshold), y = A + momentum (A - V); V = A.

    Returns (y - A+) . (A+ - A), which is positive where the momentum points uphill; leaves y - A+ in `turned`
    and A+ - A in `moved`.
    """
    price = k * c.threshold
    for i in range(moved.size):
        start = A[i] + momentum * (A[i] - V[i])
        u = start + k * (drive[i] + momentum * turned[i])
        a = (abs(u) if c.signed else u) - price
        a = ZERO if a < ZERO else a
        a = -a if c.signed and u < ZERO else a
        turned[i], moved[i] = start - a, a - A[i]
        V[i], A[i] = A[i], a
    return wide_dot(turned, moved)
