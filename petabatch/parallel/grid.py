"""The two-dimensional grid of ranks: slices over one axis, parts of them over the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm, Serial


@dataclass(frozen=True)
class Grid:
    """The position of a rank: world rank = batch rank * parts + rank of the part."""

    world: Comm
    batch: Comm
    """Ranks with the same part of other slices."""
    group: Comm
    """Ranks with other parts of the same slices: other features, or other rows."""


def grid(world: Comm, batch: int | None, parts: int, names: Sequence[str]) -> Grid:
    """Arrange all ranks in a grid of `batch` times `parts`; collective.

    `batch` defaults to as many as there are ranks for; `names` are the keys of `[parallel]` that make parts.
    Raises ResourceError when the ranks do not fill the grid.
    """
    wanted = parts * (world.size // parts if batch is None else batch)
    if world.size != wanted or wanted == 0:
        of_parts = [f"{parts} for the {' and '.join(names)}"] if names else []
        shape = " times ".join([*of_parts, *([] if batch is None else [f"{batch} for the batch"])])
        ways = ["change mpirun -n"]
        if batch is not None and world.size % parts == 0:
            ways.append("leave out parallel.batch")
        if names:
            ways.append(f"set {' and '.join(f'parallel.{name}=1' for name in names)} not to split layers")
        raise ResourceError(
            "the number of ranks does not match [parallel]\n"
            f"    found:    {world.size}\n"
            f"    expected: {shape}{', or a multiple' if batch is None else ''}\n"
            f"    hint:     {', '.join(ways[:-1])}, or {ways[-1]}"
        )
    if parts == 1:
        return Grid(world, world, Serial())
    return Grid(world, world.split(world.rank % parts), world.split(world.rank // parts))
