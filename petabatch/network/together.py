"""Number of slices that a program advances in one call: weights are read and plug-ins called once for all.

A function of the network alone. It decides about speed: the bits of a slice depend on no other slice.
"""

from __future__ import annotations

import math

import numpy as np

from petabatch.kernels.cpu.sizes import ABREAST, AHEAD, steps_kept
from petabatch.kernels.operations.patches import Carry
from petabatch.kernels.operations.synapses import Scatter
from petabatch.network.graph import Graph
from petabatch.network.operations import Program
from petabatch.spec.compiled import NotSuitable
from petabatch.weight_mode import over_slices

BLOCK = 8
"""Positions whose drive the kernels compute together, at most: `kernels.cpu.layout.DRIVE_BLOCK`."""
FEW = 24
"""Positions from which on the weights are used often enough within a slice."""
_MOST, _MOST_INTERPRETED = 48, 192
"""Slices in one call at most; with interpreted layers, where a call takes longer than a small slice."""
_BYTES = 2**20
"""Bytes of all arrays of these slices at most, about a second-level cache."""


def together(carry: Carry) -> bool:
    """Return whether an operation is made in several slices at once: weights that few positions share."""
    p = carry.patches
    if not carry.weights or not p.shared or p.positions >= FEW:
        return False
    return not carry.scatter or whole(carry)


def whole(carry: Carry) -> bool:
    """Return whether the patch of the only position is the whole layer, as between vectors."""
    p = carry.patches
    return p.positions == 1 and (p.y.size, p.x.size) == (p.y.fine, p.x.fine)


def abreast(graph: Graph, scatter: Scatter) -> bool:
    """Return whether synapses are summed up in several slices at once: the same in all, of active units."""
    synapses, layers = graph.synapses[scatter.connection], graph.network.layers
    pre = graph.network.connections[scatter.connection].pre
    return synapses.per == "network" and not layers[pre].sparse


def kept(graph: Graph, scatter: Scatter) -> int:
    """Return how many numbers of a slice are kept for that: activities, sums, a share of a cache line."""
    synapses = graph.synapses[scatter.connection]
    longest = synapses.longest if synapses.delayed else 0
    pre, post = (math.prod(shape) for shape in (synapses.ends.pre_shape, synapses.ends.shape))
    return pre * steps_kept(longest) + post * AHEAD + 1


def slices_together(graph: Graph, program: Program) -> int:
    """Return how many slices are advanced in one call; raises NotSuitable if it is one."""
    found = [one for one in program.operations if isinstance(one, Carry) and together(one)]
    scatters = [one for one in program.operations if isinstance(one, Scatter) and abreast(graph, one)]
    if not found and not scatters and not program.interpreted:
        raise NotSuitable(
            f"neither weights of fewer than {FEW} positions nor synapses of active units are shared"
        )
    if program.lazy:
        raise NotSuitable(f"{program.lazy[0].layer} is lazily evaluated")
    for one in program.operations:
        if not isinstance(one, Carry) or not one.weights or not one.patches.shared:
            continue  # a thread packs weights that positions share, those of one slice
        owner = one.weights.split("/")[1]
        if not over_slices(graph.weighted[owner].mode):
            raise NotSuitable(f"each slice has weights of its own in {owner}")
    block = ABREAST if scatters else BLOCK
    numbers = _floats(graph, program) + sum(kept(graph, one) for one in scatters)
    most = _BYTES // (np.dtype(graph.network.run.precision).itemsize * numbers)
    if most < block:
        raise NotSuitable("a slice fills the cache alone")
    return min(_MOST_INTERPRETED if program.interpreted else _MOST, most - most % block)


def group_size(slices: int, most: int, threads: int) -> int:
    """Return how many of `slices` slices go into one call, so that each thread has as many calls.

    Blocks are filled where a thread makes several calls: there are fewer blocks then. Of one call each, the
    longest counts.
    """
    calls = threads * math.ceil(slices / (most * threads))
    size = math.ceil(slices / calls)
    return size if size < BLOCK or calls == threads else min(most, BLOCK * math.ceil(size / BLOCK))


def _floats(graph: Graph, program: Program) -> int:
    state = sum(
        math.prod(variable.shape)
        for key, variable in graph.variables.items()
        if variable.per == "slice" and key.startswith("layers/")
    )
    return state + sum(program.scratch.values())
