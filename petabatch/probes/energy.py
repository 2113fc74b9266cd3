"""The energy function of sparse coding and its two terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from petabatch.kernels.transfer import COSTS, Cost, Penalty
from petabatch.probes.cost import check_corner, cost, norm_of
from petabatch.probes.cost import sums as sums
from petabatch.spec.compiled import Term
from petabatch.spec.model import Finite, NonNegative, Positive
from petabatch.spec.parts import Layer, Probe, Reading
from petabatch.variable import Array


class Energy(Probe):
    """Energy 0.5 |residual|^2 + coefficient * cost(A).

    An LCA with threshold t minimises (Rozell et al. 2008), with the soft transfer function, the cost `l1`
    with coefficient t; with the hard one, `l0` with t^2 / 2; with the firm one, `firm` with t and `corner` =
    t + width. Source: PetaVision's `ColumnEnergyProbe.cpp:60-71`.
    """

    type: Literal["energy"] = "energy"
    error: str
    """Name of the layer that holds the residual."""
    code: str
    """Name of the layer whose activity A is penalised."""
    coefficient: Finite
    """Sparsity penalty lambda: for the soft transfer function, the threshold of the LCA."""
    cost: Cost = Field("l1", description=f"Cost of one unit with activity a. {COSTS}")
    above: NonNegative = 0.0
    """Activity threshold, for `l0`."""
    corner: Positive | None = None
    """The corner T, for `firm`."""

    @model_validator(mode="after")
    def _corner(self) -> Energy:
        check_corner(self.cost, self.corner)
        return self

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    @property
    def penalty(self) -> tuple[str, Penalty] | None:
        """That of the code."""
        return self.code, Penalty(self.cost, self.coefficient)

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return the energy and its parts."""
        residual = Term(self.error, "squares", 0.5)
        sparsity = norm_of(self.code, self.cost, self.above, self.coefficient)
        return {"total": (residual, sparsity), "residual": (residual,), "sparsity": (sparsity,)}

    def layers(self) -> Sequence[str]:
        """Return the names of the two layers."""
        return (self.error, self.code)

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the energy and its terms."""
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
