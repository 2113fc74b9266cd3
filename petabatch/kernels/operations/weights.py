"""Weights as a program reads them: from one of their ends, in a geometry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from petabatch.geometry import Axis, Patches
from petabatch.kernels.operations.fields import Floats


def with_margin_as_units(p: Patches) -> Patches:
    """Return the geometry in which units beyond the edge count as units."""
    if not (p.y.margin or p.x.margin):
        return p
    y, x = (Axis(a.units, a.fine, a.stride, a.size, lead=a.lead - a.margin * a.stride) for a in (p.y, p.x))
    return replace(p, y=y, x=x)


@dataclass(frozen=True)
class Weights:
    """Weights seen from one end: an array `[1, G, nf, K]` of a slice in a geometry."""

    key: str
    patches: Patches

    @property
    def names(self) -> tuple[str, str]:
        """The arrays of panels and groups."""
        return f"scratch/panels {self.key} {self._shape}", f"scratch/groups {self.key} {self._shape}"

    @property
    def rows(self) -> tuple[str, str]:
        """The arrays of whole rows and their lengths, as lazy evaluation reads them."""
        return f"scratch/rows {self.key} {self._shape}", f"scratch/norms {self.key} {self._shape}"

    @property
    def turned(self) -> str:
        """The array of panels over the other end."""
        return f"scratch/turned {self.key} {self._shape}"

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.patches.features, self.patches.y.size, self.patches.x.size, self.patches.channels)


class ReadsWeights:
    """An operation with patches of weights."""

    weights: str
    geometry: Any

    @property
    def shared(self) -> Weights | None:
        """Its weights in reading order; None where each unit has its own."""
        return Weights(self.weights, self.geometry) if self.geometry.shared else None

    @property
    def own(self) -> Floats:
        """The patches of each unit, where it has its own."""
        return "" if self.geometry.shared else self.weights
