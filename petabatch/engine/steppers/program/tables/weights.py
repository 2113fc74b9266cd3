"""Weights as a program reads them: from one of their ends, in a geometry."""

from __future__ import annotations

from dataclasses import dataclass, replace

from petabatch.geometry import Axis, Patches


@dataclass(frozen=True)
class Margined(Axis):
    """An axis whose margin is made of units like others."""

    beyond: int = 0

    def start(self, unit: int) -> int:
        """Return the first fine index of the patch of a unit, the first of the margin being 0."""
        return super().start(unit - self.beyond)


def with_margin_as_units(p: Patches) -> Patches:
    """Return the geometry in which units beyond the edge count as units."""
    if not (p.y.margin or p.x.margin):
        return p
    y, x = (Margined(a.units, a.fine, a.stride, a.size, 0, a.margin) for a in (p.y, p.x))
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
