"""Operations that move activities: copies, padding, what ranks exchange."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.kernels.operations.base import OfSource, Operation
from petabatch.kernels.operations.fields import Doubles, Key, Longs, short
from petabatch.variable import Border


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

    @property
    def _text(self) -> str:
        return (
            f"background and {self.source}, {self.copies} of each"
            if self.copies
            else f"largest {self.source}"
        )
