"""The duality gap that stops a slice early, compiled: evaluated as far as it is needed.

With r = image - recon and the steepest slope g, the largest w . (patch of r) or, of signed codes, its size,

    energy = 0.5 |r|^2 + coefficient |A|_1
    dual   = shrink (r . image) - 0.5 shrink^2 |r|^2     shrink = min(1, coefficient / g)
    gap    = (energy - dual) / energy

as in `probes/optimality.py`. All but g costs little; g takes as long as the drive of a step. But
where |r|^2 <= r . image, the dual grows with `shrink`, and so the gap with g. Then the slopes of a few
positions are enough to say that a slice goes on. A look begins with the block of positions that said so at
the look before. Where it begins changes neither whether the slice stops nor the gap of one that does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from petabatch.kernels.cpu.convolution import drive_units, residual
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.layout import DRIVE_BLOCK, Dictionary, Images, Scratch, Shape, tile_bounds
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.cpu.sums import wide_dot, wide_squares
from petabatch.variable import Array

_POSITIONS = 4 * DRIVE_BLOCK
"""Positions of a block."""
_TINY = np.finfo(float).tiny
_ROUNDING = 1e-9
"""By how much a bound on the gap must exceed the target, so that no rounding can say that a slice goes on."""


class Looks(NamedTuple):
    """How small the gap of a slice is to be, and that of the last look."""

    target: float
    coefficient: float
    signed: bool
    gap: Array
    """The gap of the last look, float64 `[1]`; never NaN, infinity where it is only known to be too large."""
    block: Array
    """Where the next look begins, int64 `[1]`; changes no result."""


class Objective(NamedTuple):
    """What the gap depends on beside the steepest slope."""

    size: float
    """|A|_1."""
    squares: float
    """|r|^2."""
    cross: float
    """r . image."""


@njit(nogil=True, error_model="numpy")
def relative_gap(steepest: float, found: Objective, looks: Looks) -> float:
    """Return the gap if no slope is above `steepest`."""
    shrink = looks.coefficient / max(steepest, looks.coefficient)
    energy = 0.5 * found.squares + looks.coefficient * found.size
    dual = shrink * found.cross - 0.5 * shrink**2 * found.squares
    return (energy - dual) / max(energy, _TINY)


@njit(nogil=True, error_model="numpy")
def objective(size: float, images: Images, s: Shape, work: Scratch) -> Objective:
    """Write r to `work.error`; return its sums with that of the activity's sizes, `size`."""
    residual(images, 0, s.height, s, work.error)
    squares, cross = 0.0, 0.0
    for y in range(s.height):
        start = (y + s.top) * s.pitch + s.left
        r, image = work.error[start : start + s.width], images.image[y]
        squares += wide_squares(r)
        cross += wide_dot(r, image)
    return Objective(size, squares, cross)


@njit(nogil=True, error_model="numpy")
def block_length(s: Shape) -> int:
    """Return the positions of a block; no more than the scratch has room for."""
    return min(_POSITIONS, s.chunk)


@njit(nogil=True, error_model="numpy")
def blocks(s: Shape, tiles: int) -> int:
    """Return the number of blocks of a slice; those at the end of the last tile may be empty."""
    each: int = -(-(s.tile * s.nx) // block_length(s))
    return tiles * each


@njit(nogil=True, error_model="numpy")
def steepest_of(block: int, signed: bool, weights: Dictionary, s: Shape, work: Scratch) -> float:
    """Return the steepest slope of a block of `work.error`: 0 if all are below, infinity if one is NaN."""
    length = block_length(s)
    each = -(-(s.tile * s.nx) // length)
    start, begin, end = tile_bounds(block // each, s)
    base = begin + block % each * length
    if base >= end:
        return 0.0
    places = work.places[base - begin : min(base + length, end) - begin]
    drive_units(base, start, places, weights, s, work)
    best = work.values[: s.features]
    best[:] = ZERO
    for m in range(places.size):
        raise_to(work.drive[m * s.wide : m * s.wide + s.features], signed, best)
    found = ZERO
    for slope in best:
        if slope != slope:
            return np.inf
        found = max(found, slope)
    return np.float64(found)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def raise_to(slopes: Any, signed: bool, best: Any) -> None:
    """Raise each number to that of `slopes`, or its size; feature by feature, so that vectors are used.

    A number becomes NaN, and stays so, where a slope is NaN: a dictionary with NaN has no gap, even if the
    features concerned are silent.
    """
    if signed:
        for i in range(best.size):
            best[i] = best[i] if (abs(slopes[i]) <= best[i]) | (best[i] != best[i]) else abs(slopes[i])
    else:
        for i in range(best.size):
            best[i] = best[i] if (slopes[i] <= best[i]) | (best[i] != best[i]) else slopes[i]


@njit(nogil=True, error_model="numpy")
def search(
    first: int, last: int, steepest: float, found: Objective, looks: Looks, whole: bool, weights: Dictionary,
    s: Shape, work: Scratch,
) -> tuple[float, bool]:  # fmt: skip
    """Return the steepest slope of blocks first .. last and `steepest`, and whether the gap is too large.

    It ends there, except for a gap that is evaluated as a `whole`; and where a slope is infinite or NaN.
    """
    grows = found.squares <= found.cross and not whole
    if grows and relative_gap(steepest, found, looks) > looks.target + _ROUNDING:
        return steepest, True
    for block in range(first, last):
        slope = steepest_of(block, looks.signed, weights, s, work)
        if slope > steepest:
            steepest = slope
            if steepest == np.inf:
                return steepest, True
            if grows and relative_gap(steepest, found, looks) > looks.target + _ROUNDING:
                looks.block[0] = block
                return steepest, True
    return steepest, False


@njit(nogil=True, error_model="numpy")
def conclude(
    steepest: float, exceeds: bool, found: Objective, looks: Looks, whole: bool, activity: Any
) -> bool:
    """Write the gap; return whether the slice stops.

    There is no gap where an unsigned code is negative, or a number is NaN.
    """
    gap = np.inf if exceeds else relative_gap(steepest, found, looks)
    if gap != gap:
        gap = np.inf
    if (whole or gap <= looks.target) and not looks.signed:
        for a in activity:
            if a < ZERO:
                gap = np.inf
                break
    looks.gap[0] = gap
    stops: bool = gap <= looks.target
    return stops


@njit(nogil=True, error_model="numpy")
def look(
    whole: bool, size: float, activity: Any, images: Images, looks: Looks, weights: Dictionary, s: Shape,
    work: Scratch,
) -> bool:  # fmt: skip
    """Evaluate the gap of a slice; return whether it stops. `work.error` is r afterwards.

    At the end of a display it is evaluated as a `whole`, however large it is.
    """
    found = objective(size, images, s, work)
    first, last = looks.block[0], blocks(s, work.strips.shape[0])
    steepest, exceeds = search(first, last, 0.0, found, looks, whole, weights, s, work)
    if not exceeds:
        steepest, exceeds = search(0, first, steepest, found, looks, whole, weights, s, work)
    stops: bool = conclude(steepest, exceeds, found, looks, whole, activity)
    return stops
