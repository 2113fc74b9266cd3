"""Norms of the activity of a layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from petabatch.probes.cost import cost, masked, sums
from petabatch.spec.compiled import NotSuitable, Term
from petabatch.spec.model import NonNegative
from petabatch.spec.parts import Layer, Probe
from petabatch.variable import Array


class _LayerProbe(Probe):
    layer: str
    """Name of the layer to measure."""
    mask: str | None = None
    """Layer that masks the units: only those where it is not zero are measured. A mask with one feature
    applies to all features."""

    def layers(self) -> Sequence[str]:
        return (self.layer, *([self.mask] if self.mask is not None else []))

    def _norm(self, norm: Literal["squares", "sizes", "count"], coefficient: float = 1.0) -> tuple[Term, ...]:
        if self.mask is not None:
            raise NotSuitable("it counts some units only")
        return (Term(self.layer, norm, coefficient),)

    def masks(self) -> Sequence[tuple[str, str]]:
        return ((self.layer, self.mask),) if self.mask is not None else ()


class L2(_LayerProbe):
    """Squared L2 norm: the sum of squares.

    Source: PetaVision's `L2NormProbeAggregator.cpp:16-30`, with exponent 2.
    """

    type: Literal["l2"] = "l2"

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return it without a mask."""
        return {"squares": self._norm("squares")}

    def quantities(self) -> Mapping[str, str]:
        """Return the name of the sum of squares."""
        return {"squares": "sum of squares of the activity"}

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Mapping[str, Array]:
        """Return it, `[lanes]`."""
        each = cost(read(self.layer, "A"), "squares", 0.0, None, xp)
        return {"squares": sums(masked(each, self.mask, read))}


class L1(_LayerProbe):
    """L1 norm: the sum of absolute values."""

    type: Literal["l1"] = "l1"

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return it without a mask."""
        return {"sum": self._norm("sizes")}

    def quantities(self) -> Mapping[str, str]:
        """Return the name of the sum."""
        return {"sum": "sum of absolute activity"}

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Mapping[str, Array]:
        """Return it, `[lanes]`."""
        each = cost(read(self.layer, "A"), "l1", 0.0, None, xp)
        return {"sum": sums(masked(each, self.mask, read))}


class L0(_LayerProbe):
    """L0 norm: the number and the fraction of active units."""

    type: Literal["l0"] = "l0"
    above: NonNegative = 0.0
    """Activity threshold: a unit is active if its absolute activity exceeds this."""

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return it without a mask."""
        if self.above != 0:
            raise NotSuitable("it counts units above a value")
        units = math.prod(layers[self.layer].shape)
        return {"active": self._norm("count"), "fraction": self._norm("count", 1 / units)}

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the number and the fraction."""
        return {"active": "number of active units", "fraction": "fraction of units that are active"}

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Mapping[str, Array]:
        """Return both, `[lanes]`."""
        each = cost(read(self.layer, "A"), "l0", self.above, None, xp)
        active, units = (sums(masked(values, self.mask, read)) for values in (each, xp.ones_like(each)))
        return {"active": active, "fraction": active / xp.maximum(units, 1)}
