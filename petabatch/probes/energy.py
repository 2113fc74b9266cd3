"""The energy that sparse coding lowers, and its two parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import model_validator

from petabatch.probes.cost import check_corner, cost, price
from petabatch.probes.cost import sums as sums
from petabatch.spec.compiled import NotSuitable, SumWeights
from petabatch.spec.model import Finite, NonNegative, Positive
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array


class Energy(Probe):
    """0.5 |residual|^2 + coefficient * cost(A) (`ColumnEnergyProbe.cpp:60-71` of the original).

    The cost and coefficient that a threshold t minimises (Rozell et al. 2008): soft `l1` and t; hard `l0` and
    t^2 / 2; firm `firm` and t, with `corner` = t + width.
    """

    type: Literal["energy"] = "energy"
    error: str
    """Layer that holds the residual."""
    code: str
    """Layer whose activity is penalised."""
    coefficient: Finite
    """Lambda: the threshold of a soft-threshold LCA."""
    cost: Literal["l1", "l0", "firm"] = "l1"
    """Cost of one unit: |a|, 1 where |a| > `above`, or |a| (1 - |a| / 2T) up to T = `corner`."""
    above: NonNegative = 0.0
    corner: Positive | None = None

    @model_validator(mode="after")
    def _corner(self) -> Energy:
        check_corner(self.cost, self.corner)
        return self

    @property
    def splittable(self) -> bool:
        """It is a sum over features."""
        return True

    def from_step_sums(self, error: str, code: str, units: int) -> Mapping[str, SumWeights]:
        """Return the energy of the loop's own error and code."""
        if (self.error, self.code) != (error, code):
            raise NotSuitable("it is the energy of other layers")
        residual, sparsity = SumWeights(squares=0.5), price(self.cost, self.above, self.coefficient)
        return {"total": residual + sparsity, "residual": residual, "sparsity": sparsity}

    def layers(self) -> Sequence[str]:
        """Name the two layers."""
        return (self.error, self.code)

    def quantities(self) -> Mapping[str, str]:
        """Name the energy and its parts."""
        return {
            "total": "residual + sparsity",
            "residual": "half the sum of squares of the error layer",
            "sparsity": "coefficient times the summed cost of the activity",
        }

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return the three energies, each `[lanes]`."""
        each = cost(read(self.code, "A"), self.cost, self.above, self.corner, xp)
        residual = 0.5 * sums(xp.square(read(self.error, "A"), dtype=float))
        sparsity = self.coefficient * sums(each)
        return {"total": residual + sparsity, "residual": residual, "sparsity": sparsity}
