"""One of several ranks that share all slices, without the others."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.engine.assembly import Assembly
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
