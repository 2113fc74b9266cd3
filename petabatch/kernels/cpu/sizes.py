"""Sizes in the memory layout of the compiled kernels that need no compiler: vectors, tiles, chunks, units."""

from __future__ import annotations

from petabatch.geometry import Patches

LANES, GROUP = 8, 8
"""Weights in a vector and vectors in a group: a patch is summed up group by group, in registers."""
CHUNK = 256
"""About as many positions share a pass over the weights."""
ABREAST = 16
"""Slices whose synapses are summed up side by side."""
AHEAD = 4
"""Successive steps whose sums over synapses with delays of at least `AHEAD` - 1 steps are made together."""
WORD = 64
"""Positions whose units are tested together, one bit each, in lazy evaluation; a chunk is whole words."""
AT_ONCE = 4
"""Bits of a word that are listed together."""


def tiling(p: Patches) -> tuple[int, int]:
    """Return the rows of units in a tile, and the positions of a chunk.

    Raises ValueError if the coarse layer has a margin.
    """
    if p.y.margin or p.x.margin:
        raise ValueError("the compiled loop needs a zero border of the coarse layer")
    # A tile at least as high as patches overlap, so that at most few strips meet in a row.
    tile = min(p.y.coarse, max(-(-CHUNK // p.x.coarse), -(-p.y.size // p.y.stride)))
    positions = tile * p.x.coarse
    chunks = -(-positions // CHUNK)
    # Non-shared patches are read twice, the second time from the cache.
    chunk = -(-positions // (chunks * WORD)) * WORD if p.shared else 1
    return tile, chunk


def steps_kept(longest: int) -> int:
    """Return how many of its last activities a unit has room for, if synapses are late by `longest` steps.

    The first few are there twice, so that `AHEAD` steps are never apart. An odd number of cache lines lets
    one step of all units have places all over the cache.
    """
    return (longest + 2 * AHEAD - 1) | 1
