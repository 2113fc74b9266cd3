"""Share of a rank in its slices: the whole, or a part of their features or rows that others complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np

from petabatch.engine.recorder import Record
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.compiled import Term
from petabatch.spec.parts import Reading
from petabatch.variable import Array


class Features(Protocol):
    """What the engine asks of what a rank has of its slices; see `split.Split`."""

    plan: Plan
    """That of this rank's part."""
    whole_plan: Plan
    """That of whole slices."""
    group: Comm
    """The ranks that share the slices."""
    tiles: Comm
    """The ranks that have the tiles of these slices, in their order, each with the same features."""
    adders: Comm
    """The ranks whose partial sums make the whole ones: those that have other features of the same rows."""
    terms: int
    """Products of a slice that an exact sum adds up, in different ranks."""
    together: bool
    """All slices of a rank form one lane, and one message carries their partial sums."""
    writes: bool
    """This rank writes what is recorded of its slices."""

    def of(self, plan: Plan) -> Features:
        """Return the same of the slices of another network, which has as many parts."""

    def learners(self, comm: Comm) -> Comm:
        """Return the ranks over which what weights learn from is summed; `comm` have other slices."""

    def cuts_patches(self, connection: str) -> bool:
        """Return whether ranks have parts of the same patches of a connection, those onto their features."""

    def add_shares(self, share: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum of what each rank of the group measures; collective for each `tag`."""

    def add_tiles(self, part: Array, tag: int) -> None:
        """Set an array to its sum over the tiles of these slices; collective for each `tag`."""

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return this rank's terms of what a probe of a plan sums up; raises NotSuitable if it is no sum."""

    def reading(self, read: Reading, tag: int) -> Reading:
        """Return what a probe sees of whole layers, from what it sees of this rank's part.

        All that it reads is collective for each `tag`, and the same on all ranks of the group.
        """

    def all_of(
        self, connection: str, arrays: Mapping[str, Array], tag: int = 0
    ) -> AbstractContextManager[Mapping[str, Array]]:
        """Have arrays of a connection, by their names, as a whole within the block; then write them.

        Collective for each `tag`.
        """

    def part(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return this rank's part of the arrays of a checkpoint."""

    def whole(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the whole arrays, on ranks that write; collective."""

    def everywhere(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the whole arrays, on all ranks of the group; collective."""

    def layer(self, name: str, part: Array, tag: int) -> Array:
        """Return a whole layer, `[lanes, ny, nx, nf]`, from the parts of all ranks; collective."""

    def part_of_layer(self, name: str, whole: Array) -> Array:
        """Return this rank's part of a layer, `[lanes, ny, nx, nf]`."""

    def records(self, records: Sequence[Record], tag: int = 0) -> Sequence[Record]:
        """Return what was recorded of whole slices, on ranks that write; collective for each `tag`."""


class AllFeatures:
    """Every rank has all features of its slices."""

    together, writes, terms = False, True, 1

    def __init__(self, plan: Plan) -> None:
        self.plan = self.whole_plan = plan
        self.group: Comm = Serial()
        self.tiles: Comm = self.group
        self.adders: Comm = self.group

    def of(self, plan: Plan) -> Features:
        """Return all features of another network."""
        return AllFeatures(plan)

    def learners(self, comm: Comm) -> Comm:
        """Return the ranks with other slices."""
        return comm

    def cuts_patches(self, connection: str) -> bool:
        """Return False: patches are whole."""
        return False

    def add_shares(self, share: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Copy what is measured of the whole."""
        total[...] = share

    def add_tiles(self, part: Array, tag: int) -> None:
        """Leave it, there is one tile."""

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return all terms."""
        network = plan.graph.network
        return network.probes[probe].norms(network.layers)

    def reading(self, read: Reading, tag: int) -> Reading:
        """Return it as it is."""
        return read

    def all_of(
        self, connection: str, arrays: Mapping[str, Array], tag: int = 0
    ) -> AbstractContextManager[Mapping[str, Array]]:
        """Have them as they are."""
        return nullcontext(arrays)

    def part(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return them all."""
        return arrays

    def whole(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return them as they are."""
        return arrays

    def everywhere(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return them as they are."""
        return arrays

    def layer(self, name: str, part: Array, tag: int) -> Array:
        """Return the layer, which is whole."""
        return part

    def part_of_layer(self, name: str, whole: Array) -> Array:
        """Return the layer, which is whole."""
        return whole

    def records(self, records: Sequence[Record], tag: int = 0) -> Sequence[Record]:
        """Return them as they are."""
        return records
