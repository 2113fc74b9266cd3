"""The features of a rank: all of them, or a part that other ranks complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from petabatch.engine.recorder import Record
from petabatch.network.plan import Plan
from petabatch.spec.compiled import Term
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array


class Features(Protocol):
    """What the engine asks of the features that a rank has; see `split.Split`."""

    plan: Plan
    """That of this rank's features."""
    whole_plan: Plan
    """That of all features."""
    together: bool
    """All slices of a rank form one lane, and one message carries their partial sums."""
    writes: bool
    """This rank writes what is recorded of its slices."""

    def joins(self, pre: str, post: str) -> bool:
        """Return whether what a connection delivers is a partial sum over features."""

    def add(self, part: Array) -> Array:
        """Return the sum of the parts of all ranks of the group; collective."""

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Set `total` to the sum of the parts of all ranks of the group; collective for each `tag`."""

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return this rank's terms of what a probe of a plan sums up; raises NotSuitable if it is no sum."""

    def measure(self, probe: Probe, read: Reading, slices: int, xp: Any) -> Mapping[str, Array]:
        """Return this rank's share of what a probe measures."""

    def all_of(
        self, connection: str, arrays: Mapping[str, Array], tag: int = 0
    ) -> AbstractContextManager[Mapping[str, Array]]:
        """Have arrays of a connection, by their names, with all features within the block; then write them.

        Collective for each `tag`.
        """

    def part(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return this rank's features of the arrays of a checkpoint."""

    def whole(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the arrays with all features, on ranks that write; collective."""

    def records(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return what was recorded of all features, on ranks that write; collective."""


class AllFeatures:
    """Every rank has all features of its slices."""

    together, writes = False, True

    def __init__(self, plan: Plan) -> None:
        self.plan = self.whole_plan = plan

    def joins(self, pre: str, post: str) -> bool:
        """No sum is partial."""
        return False

    def add(self, part: Array) -> Array:
        """Return the sum, which is whole."""
        return part

    def add_parts(self, part: np.ndarray, total: np.ndarray, tag: int) -> None:
        """Copy the sum, which is whole."""
        total[...] = part

    def norms(self, probe: str, plan: Plan) -> Mapping[str, Sequence[Term]]:
        """Return all terms."""
        network = plan.graph.network
        return network.probes[probe].norms(network.layers)

    def measure(self, probe: Probe, read: Reading, slices: int, xp: Any) -> Mapping[str, Array]:
        """Return what the probe measures."""
        return probe.measure(read, xp)

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

    def records(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return them as they are."""
        return records
