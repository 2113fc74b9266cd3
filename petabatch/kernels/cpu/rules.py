"""What units do with their drive, compiled: one small function for each kind of layer, one for all to choose.

Each is the twin of the `update` of a layer in `layers/`, on a row of units; the loop around them, in
`cpu.py`, is the same for all. They take the drive and put the new activity in its place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

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
"""The rules by name; see `spec.compiled.CompiledRule`."""

FAST = {"nsz", "contract", "reassoc"}
"""What the compiler may assume: enough to use vectors and fused multiply-adds, not that all is finite."""
_ZERO = np.float32(0)


class Cell(NamedTuple):
    """The numbers of the membrane equation and the transfer function, in float32; see `cell`."""

    rule: int
    own: np.float32
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
    rule: int, own: float, inertia: float, threshold: float, shift: float, width: float = 0.0,
    minimum: float = 0.0, maximum: float = np.inf, signed: bool = False,
) -> Cell:  # fmt: skip
    """Return the numbers of a rule and of A = T(V), for T see `layers/transfer.py`.

    `own` is the factor on a unit's own activity in its drive, with GRADIENT on the sign of it; `inertia` is
    the beta of HEAVY_BALL and the rate of MOMENTUM.
    """
    slope = (threshold + width - shift - minimum) / width if width > 0 else 0.0
    f = np.float32
    return Cell(
        rule, f(own), f(inertia), f(threshold), f(threshold + width), f(shift), f(slope), f(minimum),
        f(maximum), signed, width > 0,
    )  # fmt: skip


class Units(NamedTuple):
    """The state of the units of a slice, each `[ny * nx * nf]` or empty where a rule does not need it."""

    A: Array
    """Activity."""
    V: Array
    """Membrane potential; of ACCELERATED the activity of the step before the last."""
    before: Array
    """Of the step before: of HEAVY_BALL the potential, of MOMENTUM the pull, of ACCELERATED the drive."""


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def transfer(u: Any, c: Cell) -> Any:
    """Return the activity of a membrane potential."""
    size = abs(u) if c.signed else u
    a = size - c.shift
    if c.line:
        a = c.minimum + c.slope * (size - c.threshold) if size < c.top else a
    a = c.maximum if a > c.maximum else a
    a = c.minimum if size < c.threshold else a
    return (a if u >= _ZERO else -a) if c.signed else a


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def add_own(drive: Any, A: Any, c: Cell) -> None:
    """Add each unit's own activity to its drive, if the cell interacts with itself."""
    for i in range(drive.size):
        drive[i] += c.own * A[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def add_transfer(drive: Any, V: Any, c: Cell) -> None:
    """Add each unit's own activity to its drive, where it need not be read because it is T(V)."""
    for i in range(drive.size):
        drive[i] += c.own * transfer(V[i], c)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def add_sign(drive: Any, A: Any, V: Any, stored: bool, c: Cell) -> None:
    """Add the sign of each unit's own activity, which is A if that is stored, else T(V)."""
    for i in range(drive.size):
        a = A[i] if stored else transfer(V[i], c)
        drive[i] += c.own if a > _ZERO else (-c.own if a < _ZERO else _ZERO)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def leak(drive: Any, V: Any, e: Any, rest: Any, c: Cell) -> None:
    """LEAKY: V = e V + rest drive. GRADIENT: the same with e = 1."""
    for i in range(V.size):
        u = e * V[i] + rest * drive[i]
        V[i] = u
        drive[i] = transfer(u, c)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def roll(drive: Any, V: Any, before: Any, e: Any, rest: Any, c: Cell) -> None:
    """HEAVY_BALL: V+ = e V + rest drive + inertia (V - V before)."""
    for i in range(V.size):
        u = e * V[i] + rest * drive[i] + c.inertia * (V[i] - before[i])
        before[i] = V[i]
        V[i] = u
        drive[i] = transfer(u, c)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def pull_again(drive: Any, V: Any, before: Any, e: Any, rest: Any, c: Cell) -> None:
    """MOMENTUM: V = e V + pull + inertia (pull before) with pull = rest drive."""
    for i in range(V.size):
        pull = rest * drive[i]
        u = e * V[i] + pull + c.inertia * before[i]
        before[i] = pull
        V[i] = u
        drive[i] = transfer(u, c)


@njit(nogil=True, error_model="numpy", cache=True)
def update(drive: Any, A: Any, V: Any, before: Any, stored: bool, e: Any, rest: Any, c: Cell) -> None:
    """Make one membrane update of a row of units by the cell's rule; A is read only if it is `stored`."""
    if c.rule == GRADIENT:
        add_sign(drive, A, V, stored, c)
    elif stored:
        add_own(drive, A, c)
    else:
        add_transfer(drive, V, c)
    if c.rule == HEAVY_BALL:
        roll(drive, V, before, e, rest, c)
    elif c.rule == MOMENTUM:
        pull_again(drive, V, before, e, rest, c)
    else:
        leak(drive, V, e, rest, c)


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def compare(drive: Any, A: Any, V: Any, before: Any, turned: Any) -> tuple[float, float]:
    """ACCELERATED: note by how much the drive turned since the last step; return |A - V|^2, |turned|^2."""
    moves, turns = 0.0, 0.0
    for i in range(drive.size):
        move, turn = A[i] - V[i], drive[i] - before[i]
        turned[i], before[i] = turn, drive[i]
        moves += np.float64(move * move)
        turns += np.float64(turn * turn)
    return moves, turns


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def accelerate(
    code: Any, A: Any, V: Any, drive: Any, turned: Any, momentum: Any, k: Any, c: Cell
) -> float:  # fmt: skip
    """ACCELERATED: A+ = shrink(y + k drive(y), k threshold), y = A + momentum (A - V); V = A, code = A+.

    Returns (y - A+) . (A+ - A), which is positive where the momentum points uphill.
    """
    uphill, price = 0.0, k * c.threshold
    for i in range(code.size):
        start = A[i] + momentum * (A[i] - V[i])
        u = start + k * (drive[i] + momentum * turned[i])
        a = (abs(u) if c.signed else u) - price
        a = _ZERO if a < _ZERO else a
        a = -a if c.signed and u < _ZERO else a
        uphill += np.float64((start - a) * (a - A[i]))
        V[i] = A[i]
        A[i] = a
        code[i] = a
    return uphill
