"""Operations that deliver activities by patches and windows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from petabatch.geometry import Patches
from petabatch.kernels.array import Padded
from petabatch.kernels.operations.base import OfSource, View
from petabatch.kernels.operations.fields import Floats, Geometry, Key, Words
from petabatch.kernels.operations.weights import ReadsWeights, with_margin_as_units
from petabatch.variable import Array, Border


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

    def seen(self, view: View) -> tuple[Array, Patches, Border]:
        """Return what it reads on arrays, how patches lie on that, and what is beyond its edge."""
        layer, p = view.see(self.source), self.geometry
        if isinstance(layer, Padded):
            return layer.layer, self.patches if self.scatter else p, layer.border
        if self.scatter:
            return layer.reshape(len(layer), p.y.units, p.x.units, p.features), p, "zero"
        return layer.reshape(len(layer), p.y.padded, p.x.padded, p.channels), self._on_padded, "zero"

    @cached_property
    def _on_padded(self) -> Patches:
        """The geometry in which padding counts as the layer."""
        p = self.geometry
        y, x = (replace(a, fine=a.padded, lead=a.lead + a.before) for a in (p.y, p.x))
        return replace(p, y=y, x=x)

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

    def on(self, view: View) -> Array:
        """Return the products of all units, those beyond the edge, too, `[slices, ny, nx, nf]`."""
        layer, p, border = self.seen(view)
        return view.kernels.project(layer, view.patches(self.weights, p), p, border)

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

    def on(self, view: View) -> Array:
        """Return the sum, `[slices, ny, nx, nf]`."""
        layer, p, border = self.seen(view)
        return view.kernels.synthesize(layer, view.patches(self.weights, p), p, border)

    def columns(self, view: View) -> Array:
        """Return the patches weighted by the units of each position, not added up, `[slices, G, M, K]`."""
        layer, p, border = self.seen(view)
        return view.kernels.mixtures(view.kernels.coarse(layer, p, border), view.patches(self.weights, p))

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

    def on(self, view: View) -> Array:
        """Return what each unit has, `[slices, ny, nx, nf]`."""
        made = (view.kernels.spread if self.scatter else view.kernels.pool)(*self.seen(view), self.largest)
        return made if self.factor == 1 else made * self.factor

    @property
    def _verb(self) -> str:
        return f"{super()._verb} {'max' if self.largest else 'sum'}"


@dataclass(frozen=True)
class Spread(Pool):
    """The same of units whose windows cover a place."""

    scatter: ClassVar[bool] = True

    padded = Key(Floats, "{0.out} padded")
    """Scratch for the fine layer with its padding."""
