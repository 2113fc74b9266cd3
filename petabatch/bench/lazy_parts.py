"""Time of each part of a lazy step, measured by steps up to it on the state after a run."""

from __future__ import annotations

import statistics
import time

from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.kernels.cpu.layout import Images, packed, scratch, shape
from petabatch.kernels.cpu.lazy.layout import LazyModel, features, fill, lazy_scratch
from petabatch.kernels.cpu.lazy.timing import (
    DRIVE,
    ERROR,
    NOTHING,
    RECONSTRUCTION,
    UPDATE,
    WAKE_LEVELS,
    part_of_step,
)

_LEAST, _MOST = 3, 25
"""Times that each is measured: most unless that takes longer than the seconds of `_BUDGET`."""
_BUDGET = 2.0
_TICK = 1e-9
"""Seconds that a part takes at least, where the clock sees none."""
_PARTS = {
    ERROR: "residual",
    WAKE_LEVELS: "wake levels",
    DRIVE: "drive",
    UPDATE: "membrane update",
    RECONSTRUCTION: "reconstruction",
}


def lazy_parts(loop: LazyStepper) -> dict[str, float]:
    """Return the seconds of processor time that a step of the slice spends on each part.

    Steps are made from the slice's state, again and again; it is void after.
    """
    p = loop.patches
    weights = features(p, packed(loop.weights, p).groups)
    fill(loop.weights[0], p, weights)
    changed = [*loop.sleep, loop.recon, loop.error]
    kept = [array.copy() for array in changed]
    images = Images(loop.image, loop.factor, loop.recon, loop.error)
    model = LazyModel(weights, loop.cell, loop.decay_table, shape(p))
    age, work, lazy = max(1, int(loop.age[0])), scratch(p), lazy_scratch(p)

    def seconds(last: int) -> float:
        for array, before in zip(changed, kept, strict=True):
            array[...] = before
        for array in weights:
            array.sum()  # in a loop of steps they are in the cache
        begin = time.thread_time()
        part_of_step(last, images, loop.sleep, model, age, work, lazy)
        return time.thread_time() - begin

    seconds(NOTHING)  # compiles
    turns: list[list[float]] = []
    begin = time.perf_counter()
    while len(turns) < _LEAST or (len(turns) < _MOST and time.perf_counter() - begin < _BUDGET):
        turns.append([seconds(last) for last in range(RECONSTRUCTION + 1)])
    until = {last: statistics.median(times) for last, times in enumerate(zip(*turns, strict=True))}
    return {name: max(_TICK, until[last] - until[last - 1]) for last, name in _PARTS.items()}
