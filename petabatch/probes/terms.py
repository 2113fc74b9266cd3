"""Sums and quotients of costs, for energies with more terms than one residual and one code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.probes.cost import Cost
from petabatch.spec.compiled import SumWeights
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array


class Sum(Probe):
    """The sum of named terms, as an energy of several layers (ColumnEnergyProbe of the original).

    `total` is the sum, each term with its coefficient; adaptive time scales can follow it.
    """

    type: Literal["sum"] = "sum"
    terms: dict[str, Cost] = Field(min_length=1)
    """Name to cost; none may be called `total`."""

    @model_validator(mode="after")
    def _total_is_taken(self) -> Sum:
        if "total" in self.terms:
            raise PydanticCustomError(
                "total", "a term cannot be called `total`", {"expected": "another name; `total` is the sum"}
            )
        return self

    def from_step_sums(self, error: str, code: str, units: int) -> Mapping[str, SumWeights]:
        """Return the terms where compiled loops sum up all of them."""
        found = {name: term.from_step_sums(error, code) for name, term in self.terms.items()}
        return {**found, "total": sum(found.values(), SumWeights())}

    def layers(self) -> Sequence[str]:
        """Name the layers of all terms."""
        return [name for term in self.terms.values() for name in term.names]

    def masks(self) -> Sequence[tuple[str, str]]:
        """Name what is masked by what."""
        return [(term.layer, term.mask) for term in self.terms.values() if term.mask is not None]

    def quantities(self) -> Mapping[str, str]:
        """Name the sum and its terms."""
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
    """One cost over another, as what is left of an image's energy (QuotientProbe); NaN over a zero."""

    type: Literal["quotient"] = "quotient"
    numerator: Cost
    denominator: Cost

    def layers(self) -> Sequence[str]:
        """Name the layers of both costs."""
        return (*self.numerator.names, *self.denominator.names)

    def masks(self) -> Sequence[tuple[str, str]]:
        """Name what is masked by what."""
        return [(c.layer, c.mask) for c in (self.numerator, self.denominator) if c.mask is not None]

    def quantities(self) -> Mapping[str, str]:
        """Name the quotient."""
        return {"quotient": "numerator over denominator; NaN where that is 0"}

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return it, `[lanes]`."""
        above, below = self.numerator.measure(read, xp), self.denominator.measure(read, xp)
        return {"quotient": xp.where(below == 0, xp.nan, above / xp.where(below == 0, 1, below))}
