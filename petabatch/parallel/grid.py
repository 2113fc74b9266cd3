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
    Raises ResourceError when the ranks do not fill the grid, or their threads cannot send at the same time.
    """
    wanted = parts * (world.size // parts if batch is None else batch)
    if world.size != wanted or wanted == 0:
        of_parts = [f"{parts} for the {' and '.join(names)}"] if names else []
        shape = " times ".join([*of_parts, *([] if batch is None else [f"{batch} for the batch"])])
        ways = ["change mpirun -n"]
        if batch is not None and world.size % parts == 0:
            ways.append("leave out parallel.batch")
        if names:
            ways.append(_whole(names))
        raise ResourceError(
            "the number of ranks does not match [parallel]\n"
            f"    found:    {world.size}\n"
            f"    expected: {shape}{', or a multiple' if batch is None else ''}\n"
            f"    hint:     {', '.join(ways[:-1])}, or {ways[-1]}"
        )
    if parts == 1:
        return Grid(world, world, Serial())
    if not world.threaded:  # threads advance different slices, and each communicates with its other parts
        raise ResourceError(
            "ranks that share slices send messages from several threads, which this MPI does not allow\n"
            "    found:    a thread level below MPI_THREAD_MULTIPLE\n"
            "    expected: MPI_THREAD_MULTIPLE\n"
            "    hint:     use an MPI library that is built with it, as those from pip are, and do not set "
            f"MPI4PY_RC_THREAD_LEVEL; or {_whole(names)}"
        )
    return Grid(world, world.split(world.rank % parts), world.split(world.rank // parts))


def _whole(names: Sequence[str]) -> str:
    """Return how layers are not split, in a new run and in one that is resumed."""
    keys = " and ".join(f"parallel.{name}=1" for name in names)
    options = " ".join(f"--{name} 1" for name in names)
    return f"set {keys} not to split layers (`petabatch resume {options}`)"
