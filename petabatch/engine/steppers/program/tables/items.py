"""Items of a step, which threads that share a slice take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.program.team import ALL
from petabatch.network.operations import (
    Operation,
    Update,
)
from petabatch.network.stages import row_tiles
from petabatch.spec.parts import Layer

_CHUNKS = 16
"""Chunks of an UPDATE in an item, some microseconds."""
Parts = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""The parts of an operation that threads share, and those after them."""


def parts_of(one: Operation, rows: Sequence[Sequence[int]], layers: Mapping[str, Layer]) -> Parts:
    """Return what threads share of an operation with these rows, and what comes after."""
    tiles = row_tiles(one)
    if tiles > 1:
        shared = [(tile, tile + 1) for tile in range(tiles)]
        return (shared, [(tiles, ALL)]) if rows[0][t.CODE] == t.Op.SYNTHESIZE else (shared, [])
    if len(rows) == 1 and isinstance(one, Update) and rows[0][t.CODE] == t.Op.UPDATE:
        chunks = -(-math.prod(layers[one.layer].shape) // u.CHUNK)
        return [(chunk, chunk + _CHUNKS) for chunk in range(0, chunks, _CHUNKS)], []
    return [(0, ALL)], []


def items_of(
    spans: Sequence[tuple[int, int]], parts: Sequence[Parts], stages: Sequence[int], last: tuple[int, int]
) -> list[tuple[int, ...]]:
    """Return the items of a step, stage by stage; see `kernels/cpu/program/team.py`."""
    found: list[tuple[int, ...]] = []
    for stage in range(max(stages, default=-1) + 1):
        for turn in range(2):
            before = len(found)
            for span, shared, at in zip(spans, parts, stages, strict=True):
                if at == stage:
                    found += [(*span, before, *part) for part in shared[turn]]
    return [*found, (*last, len(found), 0, ALL)]
