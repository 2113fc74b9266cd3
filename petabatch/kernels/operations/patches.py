"""Operations that deliver activities by patches and windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from petabatch.geometry import Patches
from petabatch.kernels.operations.base import OfSource
from petabatch.kernels.operations.fields import Floats, Geometry, Key, Words
from petabatch.kernels.operations.weights import ReadsWeights, with_margin_as_units


@dataclass(frozen=True)
class Carry(OfSource):
    """What patches deliver: each unit's product with its patch, or (`scatter`) the sum of patches."""

    patches: Patches
    scatter: ClassVar[bool]
    weights: str = field(default="", kw_only=True)
    """The array of weights; empty for pooling."""

    @property
    def geometry(self) -> Geometry:
        """How its patches lie, those of units beyond the edge, too."""
        return with_margin_as_units(self.patches)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{type(self).__name__.lower()} {self.out.removeprefix('scratch/')}"

    @property
    def _text(self) -> str:
        p = self.patches
        patch = f"{p.y.size} x {p.x.size} x {p.channels}"
        return f"{self._verb}: {p.positions} positions, {p.features} patches {patch}"

    @property
    def _verb(self) -> str:
        return f"{type(self).__name__.lower()} {self.source}"


@dataclass(frozen=True)
class Weighted(ReadsWeights, Carry):
    """An operation whose patches have weights."""

    @property
    def _verb(self) -> str:
        return f"{super()._verb} by {self.weights.split('/')[1]}"


@dataclass(frozen=True)
class Project(Weighted):
    """The product of each unit's patch with a layer, or its padding."""

    scatter: ClassVar[bool] = False

    @property
    def panels(self) -> Floats:
        """Weights that units share."""
        return self.shared.names[0] if self.shared else ""


@dataclass(frozen=True)
class Synthesize(Weighted):
    """The sum of the patches of active units."""

    scatter: ClassVar[bool] = True
    turned: Floats = field(default="", kw_only=True)
    """Panels of the same weights read from the other end, where slices are advanced together and one
    position's patch is the whole layer."""
    strips: Floats = field(default="", kw_only=True)
    """Scratch for the sums of tiles, where threads share them; the part after the tiles adds these up."""
    marks: Words = field(default="", kw_only=True)
    """Bits of the active units, where a lazily evaluated code has written them."""

    @property
    def groups(self) -> Floats:
        """Weights that units share."""
        return self.shared.names[1] if self.shared else ""


@dataclass(frozen=True)
class Pool(Carry):
    """The sum over each unit's window times a factor, or the largest in it."""

    largest: bool = False
    factor: float = 1.0
    scatter: ClassVar[bool] = False

    @property
    def _verb(self) -> str:
        return f"{super()._verb} {'max' if self.largest else 'sum'}"


@dataclass(frozen=True)
class Spread(Pool):
    """The same of units whose windows cover a place."""

    scatter: ClassVar[bool] = True

    padded = Key(Floats, "{0.out} padded")
    """Scratch for the fine layer with its padding."""
