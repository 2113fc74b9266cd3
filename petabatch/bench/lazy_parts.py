"""Where the time of a lazy step goes: a step as far as each of its parts, on the state after a run."""

from __future__ import annotations

import statistics
import time

from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.kernels.cpu import layout as cpu_layout
from petabatch.kernels.cpu.lazy import layout as cpu_lazy_layout
from petabatch.kernels.cpu.lazy.timing import (
    ALARMS,
    DRIVE,
    ERROR,
    NOTHING,
    RECONSTRUCTION,
    UPDATE,
    part_of_step,
)

_LEAST, _MOST = 3, 25
"""Times that each is measured: most unless that takes longer than the seconds of `_BUDGET`."""
_BUDGET = 2.0
_TICK = 1e-9
"""Seconds that a part takes at least, where the clock sees none."""
_PARTS = {
    ERROR: "residual",
    ALARMS: "alarms",
    DRIVE: "drive",
    UPDATE: "membrane update",
    RECONSTRUCTION: "reconstruction",
}


def lazy_parts(loop: LazyStepper) -> dict[str, float]:
    """Return the seconds of processor time that a step of the slice spends on each part.

    Steps are made from the slice's state, again and again; it is void after.
    """
    p = loop.patches
    s, work, bench = cpu_layout.shape(p), cpu_layout.scratch(p), cpu_lazy_layout.bench(p)
    weights = cpu_lazy_layout.features(p, cpu_layout.packed(loop.weights, p).groups)
    cpu_lazy_layout.fill(loop.weights[0], p, weights)
    changed = [*loop.sleep, loop.recon, loop.error]
    kept = [array.copy() for array in changed]
    ends = (loop.image, loop.factor, loop.recon, loop.error, loop.sleep, weights, loop.cell)
    numbers = (loop.e, loop.rest, loop.decay_table, max(1, int(loop.age[0])), s, work, bench)

    def seconds(last: int) -> float:
        for array, before in zip(changed, kept, strict=True):
            array[...] = before
        for array in weights:
            array.sum()  # in a loop of steps they are in the cache
        begin = time.thread_time()
        part_of_step(last, *ends, *numbers)
        return time.thread_time() - begin

    seconds(NOTHING)  # compiles
    turns: list[list[float]] = []
    begin = time.perf_counter()
    while len(turns) < _LEAST or (len(turns) < _MOST and time.perf_counter() - begin < _BUDGET):
        turns.append([seconds(last) for last in range(RECONSTRUCTION + 1)])
    until = {last: statistics.median(times) for last, times in enumerate(zip(*turns, strict=True))}
    return {name: max(_TICK, until[last] - until[last - 1]) for last, name in _PARTS.items()}
