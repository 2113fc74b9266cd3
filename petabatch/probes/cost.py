"""What a layer's activity costs: the terms that energies and norms are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.compiled import NotSuitable, SumWeights
from petabatch.spec.model import Finite, Model, NonNegative, Positive
from petabatch.variable import Array

Norm = Literal["squares", "l1", "l0", "firm"]


class Cost(Model):
    """coefficient * sum over units of a cost of their activity a:

    - `squares`: a^2;  `l1`: |a|;  `l0`: 1 where |a| > `above`;
    - `firm`: |a| (1 - |a| / 2T) below T = `corner`, T / 2 from there on, the cost that the firm threshold
      minimises with T = threshold + width (`CostFunctions.hpp:32-49` of the original).
    """

    layer: str
    """Layer that is measured."""
    norm: Norm = "squares"
    """The cost of one unit."""
    coefficient: Finite = 1.0
    """Factor on the sum."""
    above: NonNegative = 0.0
    """For `l0`: a unit is active when its absolute activity is larger than this."""
    corner: Positive | None = None
    """For `firm`: T."""
    mask: str | None = None
    """Layer that says which units count: those where it is not zero. With one feature it holds for all."""

    @model_validator(mode="after")
    def _corner(self) -> Cost:
        check_corner(self.norm, self.corner)
        return self

    def from_step_sums(self, error: str, code: str) -> SumWeights:
        """Return coefficient times the sum as sums of compiled loops; raises NotSuitable."""
        if self.mask is None and self.layer == code:
            return price(self.norm, self.above, self.coefficient)
        if self.mask is None and (self.layer, self.norm) == (error, "squares"):
            return SumWeights(squares=self.coefficient)
        raise NotSuitable(f"no step sums up {self.norm} of {self.layer}")

    @property
    def names(self) -> tuple[str, ...]:
        """The layers this reads."""
        return (self.layer, *([self.mask] if self.mask is not None else []))

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Array:
        """Return coefficient times the sum, float64 `[lanes]`."""
        each = cost(read(self.layer, "A"), self.norm, self.above, self.corner, xp)
        return self.coefficient * sums(masked(each, self.mask, read))


def cost(activity: Array, norm: Norm, above: float, corner: float | None, xp: Any) -> Array:
    """Return the cost of each unit, shaped like `activity`; computed in float64 where it is not exact."""
    if norm == "squares":
        return xp.square(activity, dtype=float)
    size = xp.abs(activity)
    if norm == "l1":
        return size
    if norm == "l0":
        return size > above
    assert corner is not None
    return xp.where(size < corner, size * (1 - size / (2 * corner)), corner / 2)


def price(norm: Norm, above: float, coefficient: float) -> SumWeights:
    """Return coefficient times the cost of a code as sums of compiled loops; raises NotSuitable."""
    if norm == "l1":
        return SumWeights(sizes=coefficient)
    if norm == "l0" and above == 0:
        return SumWeights(active=coefficient)
    raise NotSuitable(f"no step sums up the cost {norm}")


def check_corner(norm: Norm, corner: float | None) -> None:
    """Raise a validation error unless a corner is given exactly where it is used."""
    if (corner is not None) != (norm == "firm"):
        raise PydanticCustomError(
            "corner",
            "`corner` belongs to the cost `firm`",
            {"got": f"cost {norm}, corner {corner}", "expected": "both or neither"},
        )


def masked(each: Array, mask: str | None, read: Callable[[str, str], Array]) -> Array:
    """Return the costs with 0 where the layer `mask` is zero."""
    return each if mask is None else each * (read(mask, "A") != 0)


def sums(values: Array) -> Array:
    """Return the sum over each lane in float64."""
    return values.reshape(len(values), -1).sum(axis=1, dtype=float)
