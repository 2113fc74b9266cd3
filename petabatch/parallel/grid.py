"""Ranks in rows and columns: slices are spread over one axis, features over the other."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm, Serial


@dataclass(frozen=True)
class Grid:
    """The place of a rank: world rank = batch rank * features + feature rank."""

    world: Comm
    batch: Comm
    """Ranks with the same features of other slices."""
    features: Comm
    """Ranks with other features of the same slices."""


def grid(world: Comm, batch: int | None, features: int) -> Grid:
    """Arrange all ranks, `batch` times `features`; collective.

    Without `batch` it is as many as there are. Raises ResourceError where the ranks do not fill the grid.
    """
    wanted = features * (world.size // features if batch is None else batch)
    if world.size != wanted or wanted == 0:
        shape = f"{features} for the features" + ("" if batch is None else f" times {batch} for the batch")
        raise ResourceError(
            f"{world.size} ranks do not fill the grid of [parallel]\n"
            f"    expected: {shape}{', or a multiple' if batch is None else ''}\n"
            "    hint:     mpirun -n, or -s parallel.features=1 for a run with whole layers"
        )
    if features == 1:
        return Grid(world, world, Serial())
    return Grid(world, world.split(world.rank % features), world.split(world.rank // features))
