"""Cost functions of the activity of a layer, the terms of energies and norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.kernels.transfer import CORNERED, COSTS, cost_of
from petabatch.kernels.transfer import Cost as CostOfUnit
from petabatch.spec.compiled import NotSuitable, Term
from petabatch.spec.model import Finite, Model, NonNegative, Positive
from petabatch.variable import Array

Norm = Literal["squares", "root", CostOfUnit]


class Cost(Model):
    """Cost of the activity of a layer: coefficient * sum over its units of a cost of their activity a."""

    layer: str
    """Name of the layer to measure."""
    norm: Norm = Field(
        "squares",
        description=f"Cost of one unit. `squares`: a^2. `root`: a^2, and of the sum the root. {COSTS}",
    )
    coefficient: Finite = 1.0
    """Factor on the sum."""
    above: NonNegative = 0.0
    """Activity threshold, for `l0`: a unit is active if its absolute activity exceeds this."""
    corner: Positive | None = None
    """The corner T, for `firm`."""
    mask: str | None = None
    """Layer that masks the units: only those where it is not zero are measured. A mask with one feature
    applies to all features."""

    @model_validator(mode="after")
    def _corner(self) -> Cost:
        check_corner(self.norm, self.corner)
        return self

    def norms(self) -> tuple[Term, ...]:
        """Return it as a norm; raises NotSuitable."""
        if self.mask is not None:
            raise NotSuitable("it counts some units only")
        return (norm_of(self.layer, self.norm, self.above, self.coefficient),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the layers it reads."""
        return (self.layer, *([self.mask] if self.mask is not None else []))

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Array:
        """Return coefficient times the sum, float64 `[lanes]`."""
        each = cost(read(self.layer, "A"), self.norm, self.above, self.corner, xp)
        total = sums(masked(each, self.mask, read))
        return self.coefficient * (xp.sqrt(total) if self.norm == "root" else total)


def cost(activity: Array, norm: Norm, above: float, corner: float | None, xp: Any) -> Array:
    """Return the cost of each unit, with the shape of `activity`; squares are computed in float64."""
    if norm == "squares" or norm == "root":
        return xp.square(activity, dtype=float)
    return cost_of(norm, activity, above, corner, xp)


def norm_of(layer: str, norm: Norm, above: float, coefficient: float) -> Term:
    """Return coefficient times the cost of a layer as a norm; raises NotSuitable."""
    if norm == "l1":
        return Term(layer, "sizes", coefficient)
    if norm == "l0" and above == 0:
        return Term(layer, "count", coefficient)
    if norm == "squares":
        return Term(layer, "squares", coefficient)
    raise NotSuitable(f"the cost {norm} is no norm that steps sum up")


def check_corner(norm: Norm, corner: float | None) -> None:
    """Raise a validation error unless a corner is given if and only if the cost has one."""
    if (corner is not None) != (norm in CORNERED):
        raise PydanticCustomError(
            "corner",
            f"`corner` must be given with the cost `{'` or `'.join(CORNERED)}`, and only with it",
            {"got": f"cost {norm}, corner {corner}", "expected": "both or neither"},
        )


def masked(each: Array, mask: str | None, read: Callable[[str, str], Array]) -> Array:
    """Return the costs, set to 0 where the layer `mask` is zero."""
    return each if mask is None else each * (read(mask, "A") != 0)


def sums(values: Array) -> Array:
    """Return the sum over each lane, float64 `[lanes]`."""
    return values.reshape(len(values), -1).sum(axis=1, dtype=float)
