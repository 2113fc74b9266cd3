"""Stages of a program: operations that wait for none of the same stage, so that threads can share them.

An operation waits for those before it that write what it reads or writes, or read what it writes. So layers
of one level are side by side, and so is what feeds them. Large operations are cut into tiles of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from petabatch.kernels.cpu.sizes import tiling
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.patches import Carry
from petabatch.network.graph import Graph
from petabatch.network.operations import LazyUpdate, Program

_WORTH = 500_000
"""Multiply-adds of an operation, some ten microseconds, for which threads are worth their waiting."""
_Place = tuple[str, int]


def find_stages(graph: Graph, program: Program) -> tuple[int, ...]:
    """Return the stage of each operation, from 0."""
    return _stages(program, graph.depth)


def row_tiles(one: Operation) -> int:
    """Return into how many tiles of rows an operation is cut, a function of its shapes alone."""
    if _multiply_adds(one) < _WORTH:
        return 1
    if isinstance(one, LazyUpdate):
        rows = {tiling(drive.patches)[0] for drive in one.drives}
        return -(-one.drives[0].patches.y.coarse // rows.pop()) if len(rows) == 1 else 1
    if not isinstance(one, Carry):
        return 1
    p = one.patches
    if p.y.margin or p.x.margin or (one.scatter and not one.weights):
        return 1
    return -(-p.y.coarse // tiling(p)[0])


def side_by_side(graph: Graph, program: Program) -> tuple[tuple[Operation, ...], ...]:
    """Return the operations that are worth being shared by threads, stage by stage."""
    if program.interpreted:
        return ()
    found: dict[int, list[Operation]] = {}
    if all(_multiply_adds(one) < _WORTH for one in program.operations):
        return ()
    for one, stage in zip(program.operations, find_stages(graph, program), strict=True):
        if _multiply_adds(one) >= _WORTH:
            found.setdefault(stage, []).append(one)
    return tuple(tuple(ones) for _, ones in sorted(found.items()) if sum(map(row_tiles, ones)) > 1)


def _multiply_adds(one: Operation) -> int:
    if isinstance(one, LazyUpdate):
        return sum(drive.patches.multiply_adds for drive in one.drives)
    if not isinstance(one, Carry):
        return 0
    p = one.patches
    return p.multiply_adds if one.weights else p.positions * p.length  # of a window, each feature for itself


def _stages(program: Program, depth: Mapping[str, int]) -> tuple[int, ...]:
    written: dict[_Place, int] = {}
    read: dict[_Place, int] = {}
    stages = []

    def places(keys: Iterator[_Place]) -> list[_Place]:
        return [_place(key, lookback, depth) for key, lookback in keys]

    for one in program.operations:
        reads = places((source.key, source.lookback) for source in one.reads)
        writes = places((key, 0) for key in one.writes)
        after = [written.get(place, -1) for place in reads]
        after += [max(written.get(place, -1), read.get(place, -1)) for place in writes]
        stage = 1 + max(after, default=-1)
        for place in reads:
            read[place] = max(stage, read.get(place, -1))
        for place in writes:
            written[place] = stage
        stages.append(stage)
    return tuple(stages)


def _place(key: str, lookback: int, depth: Mapping[str, int]) -> _Place:
    """Return what stands for an array at a step: all of a layer's but its activity are one."""
    kind, _, name = key.partition("/")
    layer, _, variable = name.partition("/")
    if kind != "layers":
        return key, 0
    return (key, lookback % depth[layer]) if variable == "A" else (f"layers/{layer}", 0)
