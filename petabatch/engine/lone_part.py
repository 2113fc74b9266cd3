"""One of several ranks that share all slices, without the others."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.engine.assembly import Assembly
from petabatch.engine.feature_split import FeatureSplit
from petabatch.engine.features import Features
from petabatch.engine.grid_split import GridSplit
from petabatch.engine.row_split import RowSplit
from petabatch.lazy_property import lazy_property
from petabatch.parallel.comm import Serial
from petabatch.parallel.grid import Grid


class _Alone(Serial):
    """A rank of a group whose others are silent."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size


@dataclass(frozen=True)
class LonePart(Assembly):
    """The assembly of one rank, by default the first."""

    part: int = 0

    @lazy_property
    def place(self) -> Grid:
        """All slices, and one part of them."""
        return Grid(self.comm, self.comm, _Alone(self.part, self.network.parallel.parts))

    @lazy_property
    def features(self) -> Features:
        """What this part has of the slices."""
        features, rows = self.network.parallel.features, self.network.parallel.rows
        if features == 1 or rows == 1:
            return super().features
        tile = RowSplit(self.plan, Grid(self.comm, self.comm, _Alone(self.part // features, rows)))
        own = FeatureSplit(tile.plan, _Alone(self.part % features, features))
        return GridSplit(tile, own, self.place.group)
