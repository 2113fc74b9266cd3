"""Items of a step, which threads that share a slice take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.program.team import ALL
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.patches import Synthesize
from petabatch.kernels.operations.updates import UpdateUnits
from petabatch.network.operations import LazyUpdate, Update
from petabatch.network.stages import row_tiles
from petabatch.spec.parts import Layer

_CHUNKS = 16
"""Chunks of an update in an item, some microseconds."""
Parts = Sequence[Sequence[tuple[int, int]]]
"""The parts of an operation, turn by turn: those of a turn are side by side."""


def parts_of(one: Operation, made: Sequence[Operation], layers: Mapping[str, Layer]) -> Parts:
    """Return the parts of an operation that is made of these."""
    tiles = row_tiles(one)
    if tiles > 1:
        shared = [(tile, tile + 1) for tile in range(tiles)]
        if isinstance(one, LazyUpdate):
            return [(0, 1)], [(begin + 1, end + 1) for begin, end in shared], [(tiles + 1, ALL)]
        return (shared, [(tiles, ALL)]) if isinstance(one, Synthesize) else (shared,)
    if isinstance(one, Update) and list(map(type, made)) == [UpdateUnits]:
        chunks = -(-math.prod(layers[one.layer].shape) // u.CHUNK)
        return ([(chunk, chunk + _CHUNKS) for chunk in range(0, chunks, _CHUNKS)],)
    return ([(0, ALL)],)


def items_of(
    spans: Sequence[tuple[int, int]], parts: Sequence[Parts], stages: Sequence[int], last: tuple[int, int]
) -> list[tuple[int, ...]]:
    """Return the items of a step, stage by stage; see `kernels/cpu/program/team.py`."""
    found: list[tuple[int, ...]] = []
    for stage in range(max(stages, default=-1) + 1):
        mine = [(span, turns) for span, turns, at in zip(spans, parts, stages, strict=True) if at == stage]
        for turn in range(max(len(turns) for _, turns in mine)):
            before = len(found)
            for span, turns in mine:
                found += [(*span, before, *part) for part in (turns[turn] if turn < len(turns) else ())]
    return [*found, (*last, len(found), 0, ALL)]
