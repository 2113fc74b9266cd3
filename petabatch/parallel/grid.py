"""The two-dimensional grid of ranks: slices over one axis, features over the other."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm, Serial


@dataclass(frozen=True)
class Grid:
    """The position of a rank: world rank = batch rank * features + feature rank."""

    world: Comm
    batch: Comm
    """Ranks with the same features and other slices."""
    features: Comm
    """Ranks with the same slices and other features."""


def grid(world: Comm, batch: int | None, features: int) -> Grid:
    """Arrange all ranks in a grid of `batch` times `features`; collective.

    `batch` defaults to as many as there are ranks for. Raises ResourceError when the ranks do not fill the
    grid.
    """
    wanted = features * (world.size // features if batch is None else batch)
    if world.size != wanted or wanted == 0:
        shape = f"{features} for the features" + ("" if batch is None else f" times {batch} for the batch")
        raise ResourceError(
            "the number of ranks does not match [parallel]\n"
            f"    found:    {world.size}\n"
            f"    expected: {shape}{', or a multiple' if batch is None else ''}\n"
            "    hint:     change mpirun -n, or set parallel.features=1 not to split layers"
        )
    if features == 1:
        return Grid(world, world, Serial())
    return Grid(world, world.split(world.rank % features), world.split(world.rank // features))
