"""Operations that move activities: copies, padding, and what connections deliver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from petabatch.geometry import Patches
from petabatch.network.operations.base import Operation, Source
from petabatch.variable import Border


@dataclass(frozen=True)
class OfSource(Operation):
    """An operation that reads one array."""

    source: Source

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source,)


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
    double: bool = False
    """The array is of float64."""

    @property
    def _text(self) -> str:
        return f"{self.value:g}"


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

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"exchange {self.out.removeprefix('scratch/')}"

    @property
    def _text(self) -> str:
        what = "summed with" if self.adds else "with"
        return f"{self.source} {what} {self.before} rows of the tile before, {self.after} of that after"


@dataclass(frozen=True)
class Carry(OfSource):
    """What patches deliver: each unit's product with its patch, or (`scatter`) the sum of patches."""

    weights: str
    """The array of weights; empty for pooling."""
    patches: Patches
    scatter: bool
    method: str = "sum"
    """Of pooling: sum or max."""
    factor: float = 1.0

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{self._verb} {self.out.removeprefix('scratch/')}"

    @property
    def _verb(self) -> str:
        if not self.weights:
            return "spread" if self.scatter else "pool"
        return "synthesize" if self.scatter else "project"

    @property
    def _text(self) -> str:
        p, what = self.patches, self._verb
        patch = f"{p.y.size} x {p.x.size} x {p.channels}"
        weights = f" by {self.weights.split('/')[1]}" if self.weights else f" {self.method}"
        return f"{what} {self.source}{weights}: {p.positions} positions, {p.features} patches {patch}"


@dataclass(frozen=True)
class List(OfSource):
    """The active units of a layer in a step; lists of some steps are kept."""

    layer: str

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"list {self.source}"

    @property
    def _text(self) -> str:
        return f"active units of {self.source}"


@dataclass(frozen=True)
class Scatter(OfSource):
    """What single synapses deliver, summed from the active units."""

    connection: str
    """Its arrays are those of `connections/<connection>`."""
    positions: int
    """Places at which the same synapses are."""
    active: str
    """The lists of active units of the pre layer."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (*super().reads, Source(self.active))

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"scatter {self.connection}"

    @property
    def _text(self) -> str:
        places = f" at each of {self.positions} positions" if self.positions > 1 else ""
        return f"scatter {self.source} by {self.connection}{places}"


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
