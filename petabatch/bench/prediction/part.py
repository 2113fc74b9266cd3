"""One of several ranks that share all slices, without the others."""

from __future__ import annotations

from petabatch.engine.assembly import Assembly
from petabatch.once import once
from petabatch.parallel.comm import Serial
from petabatch.parallel.grid import Grid


class _First(Serial):
    """The first rank of a group whose others are silent."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


class FirstPart(Assembly):
    """The assembly of the first rank."""

    @once
    def place(self) -> Grid:
        """All slices, and the first part of them."""
        return Grid(self.comm, self.comm, _First(self.network.parallel.parts))
