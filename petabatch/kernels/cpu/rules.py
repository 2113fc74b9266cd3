"""The membrane update of each kind of code layer, compiled, with the transfer functions.

Each function is the twin of the `update` of a layer in `layers/`, on some units, in one pass; `update`
dispatches on the cell's rule. The rules and their constants are declared in `kernels/rules.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.sums import wide_squares, wide_total
from petabatch.kernels.rules import GRADIENT, HEAVY_BALL, LEAKY, MOMENTUM, Cell
from petabatch.kernels.transfer import Curve, shrink_of, transfer_of

ZERO = np.float32(0)


@njit(nogil=True, error_model="numpy")
def choose(condition: bool, a: Any, b: Any) -> Any:
    """Return one of two numbers, as `where` of `kernels/transfer.py`."""
    return a if condition else b


transfer = njit(nogil=True, fastmath=FAST, error_model="numpy")(transfer_of(choose))
shrink = njit(nogil=True, fastmath=FAST, error_model="numpy")(shrink_of(choose))


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def leaky(drive: Any, A: Any, V: Any, e: Any, gain: Any, c: Cell) -> None:
    """LEAKY: V = e V + gain (drive + self_interaction A)."""
    for i in range(V.size):
        u = e * V[i] + gain * (drive[i] + c.self_interaction * A[i])
        V[i] = u
        A[i] = transfer(u, c.curve)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def gradient(drive: Any, A: Any, V: Any, gain: Any, c: Cell) -> None:
    """GRADIENT: V = V + gain (drive + self_interaction sign(A))."""
    for i in range(V.size):
        own = c.self_interaction if A[i] > ZERO else (-c.self_interaction if A[i] < ZERO else ZERO)
        u = V[i] + gain * (drive[i] + own)
        V[i] = u
        A[i] = transfer(u, c.curve)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def heavy_ball(drive: Any, A: Any, V: Any, before: Any, e: Any, gain: Any, c: Cell) -> None:
    """HEAVY_BALL: as LEAKY, plus inertia (V - V before)."""
    for i in range(V.size):
        u = e * V[i] + gain * (drive[i] + c.self_interaction * A[i]) + c.inertia * (V[i] - before[i])
        before[i] = V[i]
        V[i] = u
        A[i] = transfer(u, c.curve)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def momentum_lca(drive: Any, A: Any, V: Any, before: Any, e: Any, gain: Any, c: Cell) -> None:
    """MOMENTUM: V = e V + pull + inertia (pull before), pull = gain (drive + self_interaction A)."""
    for i in range(V.size):
        pull = gain * (drive[i] + c.self_interaction * A[i])
        u = e * V[i] + pull + c.inertia * before[i]
        before[i] = pull
        V[i] = u
        A[i] = transfer(u, c.curve)


@njit(nogil=True, error_model="numpy")
def update(drive: Any, A: Any, V: Any, before: Any, e: Any, gain: Any, c: Cell) -> None:
    """Make one membrane update of some units by the cell's rule; A is that of the step before."""
    if c.rule == LEAKY:
        leaky(drive, A, V, e, gain, c)
    elif c.rule == GRADIENT:
        gradient(drive, A, V, gain, c)
    elif c.rule == HEAVY_BALL:
        heavy_ball(drive, A, V, before, e, gain, c)
    elif c.rule == MOMENTUM:
        momentum_lca(drive, A, V, before, e, gain, c)
    else:  # a rule without a branch ends the run: its layer is no longer finite
        A[:] = np.nan


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _moved(A: Any, V: Any, drive: Any, before: Any, moves: Any, turns: Any) -> None:
    """Write A - V and drive - before."""
    for i in range(moves.size):
        moves[i], turns[i] = A[i] - V[i], drive[i] - before[i]


@njit(nogil=True, error_model="numpy")
def compare(drive: Any, A: Any, V: Any, before: Any, some: Any, more: Any) -> tuple[float, float]:
    """ACCELERATED: return |A - V|^2 and |drive - before|^2; `some` and `more` are room for a block."""
    moves = turns = 0.0
    for begin in range(0, drive.size, some.size):
        end = min(begin + some.size, drive.size)
        a, b = some[: end - begin], more[: end - begin]
        _moved(A[begin:end], V[begin:end], drive[begin:end], before[begin:end], a, b)
        moves += wide_squares(a)
        turns += wide_squares(b)
    return moves, turns


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _accelerate(
    drive: Any, A: Any, V: Any, before: Any, momentum: Any, k: Any, c: Curve, uphill: Any
) -> None:  # fmt: skip
    price = k * c.threshold
    for i in range(uphill.size):
        start = A[i] + momentum * (A[i] - V[i])
        u = start + k * (drive[i] + momentum * (drive[i] - before[i]))
        a = shrink(u, price, c)
        uphill[i] = (start - a) * (a - A[i])
        V[i], A[i], before[i] = A[i], a, drive[i]


@njit(nogil=True, error_model="numpy")
def accelerate(
    drive: Any, A: Any, V: Any, before: Any, some: Any, momentum: Any, k: Any, c: Cell
) -> Any:  # fmt: skip
    """ACCELERATED: A+ = shrink(y + k drive(y), k threshold), y = A + momentum (A - V); V = A, before = drive.

    Returns (y - A+) . (A+ - A), which is positive where the momentum points uphill. `some` is room for a
    block.
    """
    uphill = 0.0
    for begin in range(0, drive.size, some.size):
        end = min(begin + some.size, drive.size)
        part = some[: end - begin]
        _accelerate(
            drive[begin:end], A[begin:end], V[begin:end], before[begin:end], momentum, k, c.curve, part
        )
        uphill += wide_total(part)
    return uphill
