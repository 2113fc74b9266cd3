"""The control of a slice's steps, compiled: its adaptive time scale, the step size of FISTA, its sums."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from petabatch.kernels import fista, timescale
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.rules import ACCELERATED, GRADIENT, Cell
from petabatch.kernels.timescale import Growth
from petabatch.variable import Array

SUM, ACTIVE, MOVES, TURNS, UPHILL = range(5)
"""Columns of the tallies, one row for each tile: sum |A|, active units, and what ACCELERATED compares."""
_compiled = njit(nogil=True, error_model="numpy")
follow, step_size = _compiled(timescale.follow), _compiled(fista.step_size)


class StepControl(NamedTuple):
    """The step size of a slice, fixed or adaptive."""

    e: np.float32
    """V = e V + gain drive, where no time scale adapts them."""
    gain: np.float32
    adaptive: bool
    """A time scale multiplies `dt`; it follows the energy `weights` . sums."""
    dt: float
    tau: float
    weights: tuple[float, float, float]
    growth: Growth
    scale: Array
    """The time scale, of ACCELERATED the step size, float64 `[1]` as the next two; updated in place."""
    ceiling: Array
    """The ceiling of the time scale; of ACCELERATED the age of the momentum."""
    energy_before: Array
    """The energy that the time scale followed last."""


@njit(nogil=True, error_model="numpy")
def energy(control: StepControl, sums: tuple[float, float, float]) -> float:
    """Return what the time scale follows, from the sums of a step."""
    return control.weights[0] * sums[0] + control.weights[1] * sums[1] + control.weights[2] * sums[2]


@njit(nogil=True, error_model="numpy")
def total(tallies: Any, column: int) -> float:
    """Return the sum of a column, tile by tile."""
    found = 0.0
    for tile in range(tallies.shape[0]):
        found += tallies[tile, column]
    return found


@njit(nogil=True, error_model="numpy")
def rates(c: Cell, control: StepControl, seen: float, tallies: Any) -> tuple[Any, Any]:
    """Return (e, gain) of the coming step, of ACCELERATED (momentum, step size), after energy `seen`."""
    if c.rule == ACCELERATED:
        control.scale[0], momentum, control.ceiling[0] = step_size(
            control.scale[0], control.ceiling[0], total(tallies, MOVES), total(tallies, TURNS)
        )
        return np.float32(momentum), np.float32(control.scale[0])
    if not control.adaptive:
        return control.e, control.gain
    control.scale[0], control.ceiling[0] = follow(
        control.growth, control.scale[0], control.ceiling[0], control.energy_before[0], seen
    )
    control.energy_before[0] = seen
    leap = control.dt * control.scale[0] / control.tau
    if c.rule == GRADIENT:
        return np.float32(1), np.float32(leap)
    e = np.float32(math.exp(-leap))
    return e, np.float32(1) - e


@njit(nogil=True, error_model="numpy")
def restart(c: Cell, control: StepControl, tallies: Any) -> None:
    """Restart the momentum of ACCELERATED where it pointed uphill."""
    if c.rule == ACCELERATED and total(tallies, UPHILL) > 0:
        control.ceiling[0] = 1.0


@njit(nogil=True, error_model="numpy")
def sum_squares(row: Any) -> float:
    """Return sum row^2 in float64: always as four sums, so that no choice of a compiler changes bits."""
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
