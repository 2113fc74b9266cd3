"""The state at the end of a sweep, as a checkpoint from which other runs start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petabatch.engine.failure import Failure
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network
from petabatch.storage.checkpoint import save_checkpoint
from petabatch.storage.checkpoint_part import Part
from petabatch.storage.directory import RunDirectory


@dataclass(frozen=True)
class End:
    """The state at the end of a wave."""

    numbers: Sequence[int]
    """Its slices in the sweep."""
    step: int
    arrays: Mapping[str, np.ndarray]
    batched: set[str]
    failures: Mapping[int, Failure]
    """Why slices have stopped, by their place in the wave."""


def save_end(directory: RunDirectory, network: Network, ends: Sequence[End], leaders: Comm) -> None:
    """Write the state of all slices of a sweep, if each rank has at most one wave of them; collective."""
    ranks = leaders.gather([(one.numbers[0], one.numbers[-1] + 1, len(one.numbers)) for one in ends]) or ()
    found = sorted(span for spans in ranks for span in spans)
    edges = [0, *(end for _, end, _ in found)]
    covers = [begin for begin, *_ in found] == edges[:-1] and edges[-1] == network.batch
    in_one = all(len(spans) <= 1 for spans in ranks) and all(end - begin == n for begin, end, n in found)
    begins: list[int] | None = leaders.broadcast(edges[:-1] if covers and in_one else None)
    if begins is None:
        return
    mine = ends[0] if ends else None
    writers = leaders.split(int(mine is not None))
    if mine is None:
        return

    def in_order(part: Part) -> Sequence[Part] | None:
        parts = writers.gather(part)
        return None if parts is None else sorted(parts, key=lambda one: one.lo)

    failed = [[mine.numbers[place], one.why, one.step] for place, one in sorted(mine.failures.items())]
    everywhere = sorted(one for ranks in writers.gather(failed) or () for one in ranks)
    save_checkpoint(
        directory,
        mine.step,
        mine.arrays,
        mine.batched,
        {"step": mine.step, **({"failed": everywhere} if everywhere else {})},
        lo=mine.numbers[0],
        hi=mine.numbers[-1] + 1,
        batch=network.batch,
        rank=begins.index(mine.numbers[0]),  # ranks of a resumed sweep may have their waves in another order
        gather=in_order,
        keep=network.checkpoint.keep,
    )
