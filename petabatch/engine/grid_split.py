"""Slices whose rows and features are split: each rank has a part of the features of a tile of rows.

A split by features of what a split by rows leaves to a rank. Ranks with the same tile add up what they
deliver to layers that are not split; ranks with the same features exchange rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from petabatch.engine.feature_split import FeatureSplit
from petabatch.engine.recorder import Record
from petabatch.engine.row_split import RowSplit
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm
from petabatch.parallel.grid import Grid
from petabatch.spec.compiled import Term
from petabatch.spec.parts import Reading
from petabatch.variable import Array


class GridSplit:
    """A part of the features of a tile; rank of the part = row rank * features + feature rank."""

    def __init__(self, rows: RowSplit, features: FeatureSplit, group: Comm) -> None:
        """Take the tile, the part of its features, and the ranks that share its slices."""
        self._rows, self._features, self.group = rows, features, group
        self.plan, self.whole_plan = features.plan, rows.whole_plan
        self.terms, self.together = rows.terms, features.together
        self.tiles, self.adders = rows.tiles, features.adders
        self.writes = rows.writes and features.writes

    @classmethod
    def at(cls, place: Grid, whole: Plan) -> GridSplit:
        """Return the part of a rank at its place; collective, since it splits groups of ranks."""
        features = whole.graph.network.parallel.features
        mine, rank = place.group, place.group.rank
        learners, tiles = place.world.split(rank % features), mine.split(rank % features)
        rows = RowSplit(whole, Grid(learners, place.batch, tiles))
        return cls(rows, FeatureSplit(rows.plan, mine.split(rank // features)), mine)

    def of(self, plan: Plan) -> GridSplit:
        """Return the same part of another network."""
        rows = self._rows.of(plan)
        return GridSplit(rows, self._features.of(rows.plan), self.group)

    def learners(self, comm: Comm) -> Comm:
        """Return the ranks with the same features, of all tiles and slices."""
        return self._rows.learners(comm)

    def cuts_patches(self, connection: str) -> bool:
        """Return whether ranks have parts of the same patches of a connection."""
        return self._features.cuts_patches(connection)

    def add_shares(self, share: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum over features and tiles; collective for each `tag`."""
        of_tile = np.empty_like(share)
        self._features.add_shares(share, of_tile, tag)
        self._rows.add_shares(of_tile, total, tag)

    def add_tiles(self, part: Array, tag: int) -> None:
        """Set an array to its sum over tiles; collective for each `tag`."""
        self._rows.add_tiles(part, tag)

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return the terms that this rank sums; of ranks that hold a layer whole, the first sums it."""
        return {
            quantity: [term for term in terms if self._rows.sums(term.layer)]
            for quantity, terms in self._features.norms(probe, plan).items()
        }

    def reading(self, read: Reading, tag: int) -> Reading:
        """Return what a probe sees of whole layers; what it reads is collective for each `tag`."""
        return self._rows.reading(self._features.reading(read, tag), tag)

    @contextmanager
    def all_of(
        self, connection: str, arrays: Mapping[str, Array], tag: int = 0
    ) -> Iterator[Mapping[str, Array]]:
        """Have arrays of a connection as a whole within the block, then write this rank's part."""
        with (
            self._features.all_of(connection, arrays, tag) as of_tile,
            self._rows.all_of(connection, of_tile, tag) as found,
        ):
            yield found

    def part(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return this rank's part of the arrays of a checkpoint, each with its leading axis."""
        return self._features.part(self._rows.part(arrays))

    def whole(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return on ranks that write the whole arrays; collective."""
        return self._rows.whole(self._features.whole(arrays))

    def everywhere(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the whole arrays, on all ranks of the group; collective."""
        return self._rows.everywhere(self._features.everywhere(arrays))

    def layer(self, name: str, part: Array, tag: int) -> Array:
        """Return a whole layer, `[lanes, ny, nx, nf]`, from the parts of all ranks; collective."""
        return self._rows.layer(name, self._features.layer(name, part, tag), tag)

    def part_of_layer(self, name: str, whole: Array) -> Array:
        """Return this rank's part of a layer, `[lanes, ny, nx, nf]`."""
        return self._features.part_of_layer(name, self._rows.part_of_layer(name, whole))

    def records(self, records: Sequence[Record], tag: int = 0) -> Sequence[Record]:
        """Return on ranks that write what was recorded of whole slices, else nothing.

        Collective for each `tag`.
        """
        return self._rows.records(self._features.records(records, tag), tag)
