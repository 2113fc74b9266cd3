"""Arrays in parts along an axis, one for each rank of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from petabatch.parallel.comm import Comm
from petabatch.variable import Array, host, module_of


class Cut(NamedTuple):
    """How an array is split over the ranks of a group."""

    axis: int
    step: int
    """Places from where a part begins to where the next one does."""
    length: int
    """Of a part."""

    def whole(self, ranks: int) -> int:
        """Return the length of the whole."""
        return (ranks - 1) * self.step + self.length

    def part(self, array: np.ndarray, rank: int) -> np.ndarray:
        """Return the part of a rank of an array with one more leading axis."""
        own = slice(rank * self.step, rank * self.step + self.length)
        return array[(slice(None),) * (self.axis + 1) + (own,)]

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return the whole array, joined from its parts."""
        first = (slice(None),) * (self.axis + 1) + (slice(self.step),)
        return np.concatenate([*(part[first] for part in parts[:-1]), parts[-1]], self.axis + 1)


def whole_of(group: Comm, part: Array, cut: Cut, tag: int) -> Array:
    """Return an array, on the device of `part`, from the parts of all ranks; collective for each `tag`.

    Each part is sent once to each other rank, and one at a time is kept beside the whole.
    """
    mine = np.ascontiguousarray(host(part))
    shape = list(mine.shape)
    shape[cut.axis + 1] = cut.whole(group.size)
    whole, received = np.empty(shape, mine.dtype), np.zeros_like(mine)
    cut.part(whole, group.rank)[...] = mine
    for shift in range(1, group.size):
        to, source = (group.rank + shift) % group.size, (group.rank - shift) % group.size
        group.exchange({to: mine}, {source: received}, tag)
        cut.part(whole, source)[...] = received
    return module_of(part).asarray(whole)
