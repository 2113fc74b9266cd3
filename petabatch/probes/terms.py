"""Sums and quotients of costs, for energies with more terms than a residual and a code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.probes.cost import Cost
from petabatch.spec.compiled import Term
from petabatch.spec.frozen import FROZEN
from petabatch.spec.parts import Layer, Probe, Reading
from petabatch.variable import Array

Costs = Cost | Annotated[tuple[Cost, ...], Field(min_length=1)]
"""One cost, or several that are added up."""


class Sum(Probe):
    """Sum of named costs, such as the energy of several layers.

    Records each term, and their sum as `total`, which can control adaptive time scales. Corresponds to
    PetaVision's ColumnEnergyProbe.
    """

    type: Literal["sum"] = "sum"
    terms: Annotated[dict[str, Cost], FROZEN] = Field(min_length=1)
    """Costs by name; the name `total` is reserved."""

    @model_validator(mode="after")
    def _total_is_taken(self) -> Sum:
        if "total" in self.terms:
            raise PydanticCustomError(
                "total", "a term cannot be called `total`", {"expected": "another name; `total` is the sum"}
            )
        return self

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return the terms and their sum."""
        found = {name: term.norms() for name, term in self.terms.items()}
        return {**found, "total": tuple(one for terms in found.values() for one in terms)}

    def layers(self) -> Sequence[str]:
        """Return the names of the layers of all terms."""
        return [name for term in self.terms.values() for name in term.names]

    def masks(self) -> Sequence[tuple[str, str]]:
        """Return the pairs (layer, mask)."""
        return [(term.layer, term.mask) for term in self.terms.values() if term.mask is not None]

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the terms and of the sum."""
        described = {
            name: f"{term.coefficient:g} times {term.norm} of {term.layer}"
            for name, term in self.terms.items()
        }
        return {**described, "total": "sum of all terms"}

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return them, each `[lanes]`."""
        found = {name: term.measure(read, xp) for name, term in self.terms.items()}
        return {**found, "total": sum(found.values())}


class Quotient(Probe):
    """Quotient of costs or sums of costs, such as the energy of a residual relative to that of its image.

    NaN where the denominator is zero. It can control adaptive time scales. Corresponds to PetaVision's
    QuotientProbe.
    """

    type: Literal["quotient"] = "quotient"
    followed: ClassVar[str] = "quotient"
    numerator: Costs
    """The cost in the numerator, or an array of costs that are added up."""
    denominator: Costs
    """The cost in the denominator, or an array of costs that are added up."""

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def layers(self) -> Sequence[str]:
        """Return the names of the layers of all costs."""
        return [name for cost in self._costs() for name in cost.names]

    def masks(self) -> Sequence[tuple[str, str]]:
        """Return the pairs (layer, mask)."""
        return [(c.layer, c.mask) for c in self._costs() if c.mask is not None]

    def _costs(self) -> tuple[Cost, ...]:
        return (*_several(self.numerator), *_several(self.denominator))

    def quantities(self) -> Mapping[str, str]:
        """Return the name of the quotient."""
        return {"quotient": "numerator divided by denominator; NaN where the denominator is 0"}

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return it, `[lanes]`."""
        above, below = (
            sum(cost.measure(read, xp) for cost in _several(costs))
            for costs in (self.numerator, self.denominator)
        )
        return {"quotient": xp.where(below == 0, xp.nan, above / xp.where(below == 0, 1, below))}


def _several(costs: Costs) -> tuple[Cost, ...]:
    return costs if isinstance(costs, tuple) else (costs,)
