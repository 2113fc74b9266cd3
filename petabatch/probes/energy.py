"""The energy that sparse coding lowers, and its two parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from petabatch.spec.model import Finite
from petabatch.spec.parts import Probe
from petabatch.variable import Array


class Energy(Probe):
    """0.5 |residual|^2 + coefficient * sum |A| (`ColumnEnergyProbe.cpp:60-71`, `L1NormLCAProbe`)."""

    type: Literal["energy"] = "energy"
    error: str
    """Layer that holds the residual."""
    code: str
    """Layer whose activity is penalised."""
    coefficient: Finite
    """Lambda: the threshold of a soft-threshold LCA."""

    def layers(self) -> Sequence[str]:
        """Name the two layers."""
        return (self.error, self.code)

    def quantities(self) -> Mapping[str, str]:
        """Name the energy and its parts."""
        return {
            "total": "residual + sparsity",
            "residual": "half the sum of squares of the error layer",
            "sparsity": "coefficient times the sum of absolute activity",
        }

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Mapping[str, Array]:
        """Return the three energies, each `[lanes]`."""
        residual = 0.5 * sums(xp.square(read(self.error, "A"), dtype=float))
        sparsity = self.coefficient * sums(xp.abs(read(self.code, "A")))
        return {"total": residual + sparsity, "residual": residual, "sparsity": sparsity}


def sums(values: Array) -> Array:
    """Return the sum over each lane in float64."""
    return values.reshape(len(values), -1).sum(axis=1, dtype=float)
