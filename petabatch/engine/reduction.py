"""The reduction of Hebbian products over all slices: at once, or overlapped with the next steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from petabatch.engine.state import State
from petabatch.parallel.comm import Sums
from petabatch.parallel.reduce import ExactSum
from petabatch.variable import Array


class Pending(Protocol):
    """A sum under way; see `ExactSum`."""

    def test(self) -> bool:
        """Make progress without waiting; return whether it is done."""

    def wait(self) -> dict[str, np.ndarray]:
        """Return each sum."""


class Reduction(ABC):
    """Sums arrays over the slices of all ranks; what arrives may be the sums of an earlier call."""

    def __init__(self, state: State, sums: Sums, terms: int = 1, tile: Sums | None = None) -> None:
        """Sum over the ranks of `sums`, with `terms` terms for each slice: one for each tile.

        What belongs to the positions of one tile is summed over the ranks that have this `tile`.
        """
        self.state, self.sums = state, sums
        self._terms, self._tile = terms, tile
        self.start: Callable[[dict[str, Array], Sums, int, int], Pending] = ExactSum
        """Starts a sum over ranks: of named arrays, with the number of slices and the first local one."""

    @abstractmethod
    def __call__(
        self,
        group: int,
        update: int,
        parts: Mapping[str, Array],
        late: Mapping[str, str],
        shared: bool,
    ) -> Mapping[str, Array]:
        """Return the sums to apply at update number `update` of a group; nothing if there are none yet.

        `parts` are the arrays by what they are called in errors; `late` the keys of the state's arrays that
        keep each sum in a checkpoint while it is under way. They are of all positions if these are `shared`.
        """

    @property
    def pending(self) -> bool:
        """Whether sums are under way, and have not arrived yet."""
        return False

    def poll(self) -> None:
        """Make progress on sums that are under way; MPI moves them only when it is called."""

    def settle(self) -> None:
        """Finish what is under way and keep it in the state, for a checkpoint."""

    def _begin(self, parts: dict[str, Array], shared: bool) -> Pending:
        return self.start(parts, *self._over(shared), self.state.lo)

    def _over(self, shared: bool) -> tuple[Sums, int]:
        """Return the ranks over which is summed, and the number of terms."""
        batch = self.state.graph.network.batch
        if shared or self._tile is None:
            return self.sums, batch * self._terms
        return self._tile, batch


class Exact(Reduction):
    """The sums of this update."""

    def __call__(
        self,
        group: int,
        update: int,
        parts: Mapping[str, Array],
        late: Mapping[str, str],
        shared: bool,
    ) -> Mapping[str, Array]:
        """Return them; nothing overlaps with them, so no side stream is needed."""
        return ExactSum(dict(parts), *self._over(shared), self.state.lo).wait()


class Overlapped(Reduction):
    """The sums of the update before, which travel while lanes make the next steps.

    Weights are one update late, on one rank as on many, so that the number of ranks still changes no bit.
    The sums of one group are under way at a time: a sum has two messages, and with several sums it would
    depend on a rank's time in which order it sends them, which must be the same on all ranks.
    """

    def __init__(self, state: State, sums: Sums, terms: int = 1, tile: Sums | None = None) -> None:
        super().__init__(state, sums, terms, tile)
        self._under_way: tuple[Pending, Mapping[str, str]] | None = None
        self._arrived = False

    def __call__(
        self,
        group: int,
        update: int,
        parts: Mapping[str, Array],
        late: Mapping[str, str],
        shared: bool,
    ) -> Mapping[str, Array]:
        """Return those of the update before, just arrived or as a checkpoint kept them, and start these."""
        self.settle()
        before = {name: self.state.arrays[late[name]] for name in parts} if update > 0 else {}
        copies = {name: values.copy() for name, values in parts.items()}
        self._under_way, self._arrived = (self._begin(copies, shared), late), False
        return before

    @property
    def pending(self) -> bool:
        """Whether sums are under way, and have not arrived yet."""
        return self._under_way is not None and not self._arrived

    def poll(self) -> None:
        """Make progress on them."""
        if self._under_way is not None and not self._arrived:
            self._arrived = self._under_way[0].test()

    def settle(self) -> None:
        """Finish them and keep them in the state."""
        if self._under_way is not None:
            sums, late = self._under_way
            for name, values in sums.wait().items():
                self.state.arrays[late[name]] = values
            self._under_way = None
