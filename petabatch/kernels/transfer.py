"""Transfer functions A = T(V): their formulas, where they are silent, and the penalties that they minimise.

A transfer function is a name in `Transfer`, a branch in `transfer_of` and a penalty in `minimised`. Layers on
arrays, compiled steps and CUDA kernels have T from here, with the same numbers; lazy evaluation its
`threshold`, probes the costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from petabatch.variable import Array

Transfer = Literal["soft", "hard", "firm"]
"""The names of transfer functions."""
TRANSFERS = (
    "`soft`: A = V - threshold. `hard`: A = V. `firm`: linear from 0 at threshold to V at threshold + width, "
    "then A = V."
)
"""What they are above the threshold, for the reference of keys."""
SHIFTED, LINE = range(2)
"""Forms: V - shift; below `top`, a line to it from `minimum` at the threshold."""
_FORMS: Mapping[Transfer, int] = {"soft": SHIFTED, "hard": SHIFTED, "firm": LINE}
Single = Annotated[float, "float32"]
"""A number that compiled steps have in the precision of the run, GPU kernels in float32."""
Choice = Callable[[Any, Any, Any], Any]
"""`where(condition, a, b)` of numbers or arrays; both a and b are computed."""


class Curve(NamedTuple):
    """The numbers of a threshold function, PetaVision's `components/ANNActivityBuffer.cpp:432-556`.

    Potentials below the threshold give `minimum`: with a minimum of 0 they are silent, which lazy evaluation
    relies on.
    """

    form: int
    signed: bool
    """T is odd, T(-V) = -T(V), with `minimum` = 0; PetaVision has no such option."""
    bounded: bool
    """There is a maximum."""
    threshold: Single
    top: Single
    shift: Single
    slope: Single
    minimum: Single
    maximum: Single

    @classmethod
    def of(
        cls, transfer: Transfer, threshold: float, shift: float | None = None, width: float = 0.0,
        minimum: float = 0.0, maximum: float = math.inf, signed: bool = False,
    ) -> Curve:  # fmt: skip
        """Return a threshold function; `shift` is the threshold for `soft`, else 0, where it is not given."""
        form, top = _FORMS[transfer], threshold + width
        if shift is None:
            shift = threshold if transfer == "soft" else 0.0
        slope = (top - shift - minimum) / width if form == LINE and width > 0 else 0.0
        bounded = maximum < math.inf
        return cls(form, signed, bounded, threshold, top, shift, slope, minimum, maximum)

    @property
    def structure(self) -> tuple[int, bool, bool]:
        """What GPU kernels are compiled for; all else are numbers, in which slices of a launch may differ."""
        return self.form, self.signed, self.bounded

    @property
    def silent(self) -> float:
        """The potential, with `signed` its size, below which the activity is 0; 0 where there is none."""
        return self.threshold if self.minimum == 0 else 0.0

    def on(self, potential: Array, out: Array, xp: Any) -> None:
        """Write the activity of `potential` to `out`, an array of the same shape; they may be one array."""
        with np.errstate(divide="ignore", invalid="ignore"):  # of the side that is not chosen
            out[...] = transfer_of(xp.where)(potential, self)


RECTIFIER = Curve.of("hard", 0.0)
"""max(V, 0)."""


def transfer_of(where: Choice) -> Callable[[Any, Curve], Any]:
    """Return T of a potential and the numbers of a curve, for what `where` takes."""

    def transfer(u: Any, c: Curve) -> Any:
        size = abs(u) if c.signed else u
        a = size - c.shift
        if c.form == LINE:
            a = where(size < c.top, c.minimum + c.slope * (size - c.threshold), a)
        if c.bounded:
            a = where(a > c.maximum, c.maximum, a)
        a = where(size < c.threshold, c.minimum, a)
        return where(u < size, -a, a) if c.signed else a

    return transfer


def shrink_of(where: Choice) -> Callable[[Any, Any, Curve], Any]:
    """Return the proximal operator of price |a| at u, which is T of a soft curve with that threshold."""

    def shrink(u: Any, price: Any, c: Curve) -> Any:
        size = abs(u) if c.signed else u
        a = size - price
        a = where(a < c.minimum, c.minimum, a)
        return where(u < size, -a, a) if c.signed else a

    return shrink


class Polyline(NamedTuple):
    """Piecewise linear T through vertices (V, A); at a jump, the later vertex holds.

    Source: PetaVision's `ANNActivityBuffer.kpp:46-75`.
    """

    below: float
    """The slope before the first vertex."""
    corners: tuple[tuple[float, float, float], ...]
    """V and A of each vertex, and the slope from there on."""

    @classmethod
    def of(cls, vertices: tuple[tuple[float, float], ...], slopes: tuple[float, float]) -> Polyline:
        """Return it from its vertices and its slopes before the first and after the last."""
        rising = [(b - a) / (w - v) if w > v else 0.0 for (v, a), (w, b) in pairwise(vertices)]
        ends = zip(vertices, (*rising, slopes[1]), strict=True)
        return cls(slopes[0], tuple((v, a, slope) for (v, a), slope in ends))

    @property
    def silent(self) -> float:
        """None is known."""
        return 0.0

    def on(self, potential: Array, out: Array, xp: Any) -> None:
        """Write the activity of `potential` to `out`, an array of the same shape; they may be one array."""
        out[...] = polyline_of(xp.where)(potential, self.corners, self.below)


def polyline_of(where: Choice) -> Callable[[Any, Any, Any], Any]:
    """Return T of a potential, the corners of a polyline and its slope before them."""

    def polyline(u: Any, corners: Any, below: Any) -> Any:
        a = corners[0][1] + below * (u - corners[0][0])
        for n in range(len(corners)):
            a = where(u >= corners[n][0], corners[n][1] + corners[n][2] * (u - corners[n][0]), a)
        return a

    return polyline


Cost = Literal["l1", "l0", "firm"]
"""The names of costs of an activity, which penalties are made of."""
COSTS = (
    "`l1`: |a|. `l0`: 1 where |a| > `above`. `firm`: |a| (1 - |a| / 2T) below T = `corner`, T / 2 above; "
    "with T = threshold + width, the cost that the firm threshold minimises (PetaVision's "
    "`CostFunctions.hpp:32-49`)."
)
"""What they are, for the reference of keys."""
CORNERED: tuple[Cost, ...] = ("firm",)
"""The costs with a corner."""


class Penalty(NamedTuple):
    """The sparsity penalty of an energy 0.5 |residual|^2 + coefficient * cost(A)."""

    cost: Cost
    coefficient: float


def minimised(transfer: Transfer, threshold: float) -> Penalty:
    """Return the penalty that an LCA minimises (Rozell et al. 2008); the corner is threshold + width."""
    if transfer == "hard":
        return Penalty("l0", threshold**2 / 2)
    return Penalty("l1" if transfer == "soft" else "firm", threshold)


def cost_of(cost: Cost, activity: Array, above: float, corner: float | None, xp: Any) -> Array:
    """Return the cost of each unit, with the shape of `activity`."""
    size = xp.abs(activity)
    if cost == "l1":
        return size
    if cost == "l0":
        return size > above
    assert corner is not None
    return xp.where(size < corner, size * (1 - size / (2 * corner)), corner / 2)
