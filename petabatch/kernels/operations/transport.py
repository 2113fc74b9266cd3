"""Operations that move activities: copies, padding, what ranks exchange."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.kernels.array import Padded
from petabatch.kernels.operations.base import OfSource, Operation, View
from petabatch.kernels.operations.fields import Doubles, Key, Longs, short
from petabatch.variable import Array, Border


@dataclass(frozen=True)
class Copy(OfSource):
    """A copy of one array."""

    @property
    def _text(self) -> str:
        return str(self.source)


@dataclass(frozen=True)
class Fill(Operation):
    """One value everywhere."""

    value: float

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"fill {short(self.out)}"

    @property
    def _text(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class FillDouble(Fill):
    """One value everywhere in an array of float64."""

    out: Doubles


@dataclass(frozen=True)
class Extend(OfSource):
    """A layer in the middle of its padding."""

    shape: tuple[int, int, int]
    rows: tuple[int, int]
    """Before and after; of `columns`, too."""
    columns: tuple[int, int]
    border: Border

    def on(self, view: View) -> Padded:
        """Return the layer and what is around it."""
        layer = view.see(self.source)
        return Padded(layer.reshape(len(layer), *self.shape), self.rows, self.columns, self.border)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"pad {self.source}"

    @property
    def _text(self) -> str:
        return f"{self.source} with {self.rows} rows, {self.columns} columns around, border {self.border}"


@dataclass(frozen=True)
class Crop(OfSource):
    """A part of a layer."""

    shape: tuple[int, int, int]
    """Of the part."""
    start: tuple[int, int]
    """Its first row and column."""
    columns: int
    """Of the layer."""

    def on(self, view: View) -> Array:
        """Return the part, `[slices, ny, nx, nf]`."""
        (ny, nx, nf), (y, x), layer = self.shape, self.start, view.see(self.source)
        part = layer.reshape(len(layer), -1, self.columns, nf)[:, y : y + ny, x : x + nx]
        return view.kernels.xp.ascontiguousarray(part)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"crop {self.source}"

    @property
    def _text(self) -> str:
        (ny, nx, _), (y, x) = self.shape, self.start
        return f"rows {y} .. {y + ny}, columns {x} .. {x + nx} of {self.source}"


@dataclass(frozen=True)
class Join(OfSource):
    """What ranks have that share a layer: their sum, in the order of ranks, or all features, or all rows.

    `source` is that of this rank.
    """

    size: int
    """Its numbers."""
    block: int = 0
    """Numbers of this rank that follow each other where those of all ranks are put beside each other: the
    features of a position, or the whole tile; 0: the sum."""
    tiles: bool = False
    """Of the ranks that have other tiles, not of those that have other features."""

    link = Key(Longs, "links/{0.out}")
    """The array of the messages, see `kernels/cpu/program/messages.py`."""

    def on(self, view: View) -> Array:
        """Return what all ranks have."""
        part = view.see(self.source)
        if not self.block:
            return view.added(part)
        return view.gathered(part.reshape(len(part), -1, self.block), self.tiles)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        out = self.out.removeprefix("scratch/").removesuffix(" from all ranks")
        return f"join {out.removesuffix(' from all tiles')}"

    @property
    def _text(self) -> str:
        what = "rows of all" if self.tiles else "features of all" if self.block else "sum over"
        return f"{what} ranks of {self.source}"


@dataclass(frozen=True)
class Exchange(OfSource):
    """What ranks with neighbouring tiles have of rows of this one.

    `source` is a layer with `before` and `after` more rows than this rank has.
    """

    rows: int
    """Of this rank."""
    before: int
    after: int
    row: int
    """Numbers in a row."""
    adds: bool
    """The rows of this rank, which are `out`, become the sum of all that reach them; else the others become
    what they are there. Both in place."""

    link = Key(Longs, "links/{0.out}")
    """The array of the messages, see `kernels/cpu/program/messages.py`."""

    def on(self, view: View) -> Array:
        """Return the tile with the rows around it, or those of this rank."""
        wide = view.see(self.source)
        if isinstance(wide, Padded):
            wide = view.kernels.extend(wide.layer, wide.rows, wide.columns, wide.border)
        wide = wide.reshape(len(wide), -1, self.row)
        return view.exchanged(wide, self.before, self.after, self.adds)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"exchange {self.out.removeprefix('scratch/')}"

    @property
    def _text(self) -> str:
        what = "summed with" if self.adds else "with"
        return f"{self.source} {what} {self.before} rows of the tile before, {self.after} of that after"


@dataclass(frozen=True)
class Compare(OfSource):
    """What the features of each position are compared for: the largest, or whether all are 0."""

    features: int
    copies: int = 0
    """Of a feature of the background, and of the others behind it; 0: the largest alone."""

    def on(self, view: View) -> Array:
        """Return the largest feature of each position, or all behind that of the background."""
        xp, layer = view.kernels.xp, view.see(self.source)
        features = layer.reshape(len(layer), -1, self.features)
        if not self.copies:
            return features.max(axis=2)
        background = (features == 0).all(axis=2, keepdims=True).astype(features.dtype)
        return xp.repeat(xp.concatenate([background, features], axis=2), self.copies, axis=2)

    @property
    def _text(self) -> str:
        return (
            f"background and {self.source}, {self.copies} of each"
            if self.copies
            else f"largest {self.source}"
        )
