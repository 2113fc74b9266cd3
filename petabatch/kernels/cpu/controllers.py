"""What a slice decides as a whole in each step, compiled: its time scale, the step of FISTA, its sums."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from petabatch.kernels import timescale
from petabatch.kernels.cpu.rules import ACCELERATED, GRADIENT, Cell
from petabatch.kernels.timescale import Growth
from petabatch.variable import Array

SUM, ACTIVE, MOVES, TURNS, UPHILL = range(5)
"""Columns of the tallies, one row for each tile: sum |A|, active units, and what ACCELERATED compares."""
GREW = 1.05
"""Factor on the step of ACCELERATED after each step that was not too large."""
BREAK = 4.0
"""A step of ACCELERATED this many times too large is a break: the momentum starts anew."""

follow = njit(nogil=True, error_model="numpy", cache=True)(timescale.follow)


class StepControl(NamedTuple):
    """How fast the units of a slice move."""

    e: np.float32
    """V = e V + rest drive, where no time scale adapts them."""
    rest: np.float32
    adaptive: bool
    """A time scale multiplies `dt`; it follows the energy `weights` . sums."""
    dt: float
    tau: float
    weights: tuple[float, float, float]
    growth: Growth
    now: Array
    """The time scale, of ACCELERATED the step, float64 `[1]` as the next two; updated in place."""
    ceiling: Array
    """The ceiling of the time scale; of ACCELERATED the age of the momentum."""
    seen: Array
    """The energy the time scale saw last."""


@njit(nogil=True, error_model="numpy", cache=True)
def energy(p: StepControl, sums: tuple[float, float, float]) -> float:
    """Return what the time scale follows, from the sums of a step."""
    return p.weights[0] * sums[0] + p.weights[1] * sums[1] + p.weights[2] * sums[2]


@njit(nogil=True, error_model="numpy", cache=True)
def total(tallies: Any, column: int) -> float:
    """Return the sum of a column, tile by tile."""
    found = 0.0
    for tile in range(tallies.shape[0]):
        found += tallies[tile, column]
    return found


@njit(nogil=True, error_model="numpy", cache=True)
def rates(c: Cell, p: StepControl, seen: float, tallies: Any) -> tuple[Any, Any]:
    """Return (e, rest) of the coming step, of ACCELERATED (momentum, step), after energy `seen`."""
    if c.rule == ACCELERATED:
        momentum, step = _accelerated(p, total(tallies, MOVES), total(tallies, TURNS))
        return momentum, step
    if not p.adaptive:
        return p.e, p.rest
    p.now[0], p.ceiling[0] = follow(p.growth, p.now[0], p.ceiling[0], p.seen[0], seen)
    p.seen[0] = seen
    leap = p.dt * p.now[0] / p.tau
    if c.rule == GRADIENT:
        return np.float32(1), np.float32(leap)
    e = np.float32(math.exp(-leap))
    return e, np.float32(1) - e


@njit(nogil=True, error_model="numpy", cache=True)
def _accelerated(p: StepControl, moves: float, turns: float) -> tuple[Any, Any]:
    """See `layers/fista.py`."""
    before, age, change = p.now[0], p.ceiling[0], p.now[0] ** 2 * turns
    step = before * (0.5 if change > moves else GREW)
    if change > BREAK**2 * moves:
        age = 1.0
    older = (1 + math.sqrt(1 + 4 * before / step * age**2)) / 2
    p.now[0], p.ceiling[0] = step, older
    return np.float32((age - 1) / older), np.float32(step)


@njit(nogil=True, error_model="numpy", cache=True)
def restart(c: Cell, p: StepControl, tallies: Any) -> None:
    """Let the momentum of ACCELERATED start anew where it pointed uphill."""
    if c.rule == ACCELERATED and total(tallies, UPHILL) > 0:
        p.ceiling[0] = 1.0


@njit(nogil=True, error_model="numpy", cache=True)
def sum_squares(row: Any) -> float:
    """Return sum row^2 in float64: always as four sums, so that bits depend on no choice of a compiler's."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = row.size - row.size % 4
    for i in range(0, whole, 4):
        a += np.float64(row[i]) ** 2
        b += np.float64(row[i + 1]) ** 2
        c += np.float64(row[i + 2]) ** 2
        d += np.float64(row[i + 3]) ** 2
    for i in range(whole, row.size):
        a += np.float64(row[i]) ** 2
    return (a + b) + (c + d)
