"""Timing of the parts of a compiled step, on the state of a slice."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from petabatch.engine.steppers.base import StepTimes
from petabatch.geometry import Patches
from petabatch.kernels.cpu import timing
from petabatch.kernels.cpu.layout import Images, packed, scratch, shape
from petabatch.kernels.cpu.lazy import timing as lazy_timing
from petabatch.kernels.cpu.lazy.layout import LazyModel, LazyState, fill, lazy_scratch
from petabatch.variable import Array

_REPEATS = 7
"""Repetitions of a dense kernel or of an operation, of which the fastest counts."""
PROGRAM_STEPS = 20
"""Steps in which an operation of a program is made alone."""
_LEAST, _MOST = 3, 25
"""Repetitions of each part of a lazy step: most unless that takes longer than the seconds of `_BUDGET`."""
_BUDGET = 2.0
_TICK = 1e-9
"""Seconds that a part takes at least, where the clock sees none."""
_LAZY_PARTS = {
    lazy_timing.ERROR: "residual",
    lazy_timing.WAKE_LEVELS: "wake levels",
    lazy_timing.DRIVE: "drive",
    lazy_timing.UPDATE: "membrane update",
    lazy_timing.RECONSTRUCTION: "reconstruction",
}


def time_dense_step(p: Patches, images: Images, activity: Array, weights: Array) -> StepTimes:
    """Time the kernels of a dense step that can be run alone."""
    s, work, dictionary = shape(p), scratch(p), packed(weights, p)
    images = images._replace(recon=images.recon.copy())
    code = np.zeros((p.positions, s.wide), np.float32)
    code[:, : p.features] = activity.reshape(p.positions, p.features)
    jobs: dict[str, Callable[[int], None]] = {
        "residual": lambda n: timing.subtract(n, images, s, work),
        "drive": lambda n: timing.drive(n, dictionary, s, work),
        "reconstruction": lambda n: timing.reconstruct(
            n, code.reshape(-1), dictionary, s, work, images.recon
        ),
    }
    return StepTimes({name: _best(job) for name, job in jobs.items()}, "membrane update")


def time_lazy_step(
    images: Images, state: LazyState, model: LazyModel, p: Patches, age: int, weights: Array
) -> StepTimes:
    """Time a lazy step as far as each of its parts, from the same state each time."""
    fill(weights, p, model.weights)
    changed = [*state, images.recon, images.error]
    restore = _restoring(changed)
    work, lazy = scratch(p), lazy_scratch(p)

    def seconds(last: int) -> float:
        restore()
        for array in model.weights:
            array.sum()  # in a loop of steps they are in the cache
        begin = time.thread_time()
        lazy_timing.part_of_step(last, images, state, model, max(1, age), work, lazy)
        return time.thread_time() - begin

    seconds(lazy_timing.NOTHING)  # compiles
    turns: list[list[float]] = []
    begin = time.perf_counter()
    while len(turns) < _LEAST or (len(turns) < _MOST and time.perf_counter() - begin < _BUDGET):
        turns.append([seconds(last) for last in range(lazy_timing.RECONSTRUCTION + 1)])
    until = {last: statistics.median(times) for last, times in enumerate(zip(*turns, strict=True))}
    return StepTimes({name: max(_TICK, until[last] - until[last - 1]) for last, name in _LAZY_PARTS.items()})


def time_program_step(
    jobs: Sequence[tuple[str, Callable[[], object]]], changed: Sequence[Array], slices: int
) -> StepTimes:
    """Time the operations of a program one by one, each from the same state.

    A job makes an operation of `slices` in `PROGRAM_STEPS` steps; times of the same name are added. `changed`
    are the arrays that jobs may change.
    """
    restore = _restoring(changed)

    def seconds(job: Callable[[], object]) -> float:
        restore()
        begin = time.thread_time()
        job()
        return (time.thread_time() - begin) / PROGRAM_STEPS / slices

    times: dict[str, float] = {}
    for name, job in jobs:
        times[name] = times.get(name, 0.0) + min(seconds(job) for _ in range(_REPEATS))
    return StepTimes(times)


def _restoring(arrays: Sequence[Array]) -> Callable[[], None]:
    """Return what puts back the present values of arrays."""
    kept = [array.copy() for array in arrays]

    def restore() -> None:
        for array, before in zip(arrays, kept, strict=True):
            array[...] = before

    return restore


def _best(job: Callable[[int], None]) -> float:
    """Return the least processor time of one repetition."""
    job(1)  # compiles
    times = max(1, int(0.01 / max(_clock(job, 1), 1e-7)))
    return min(_clock(job, times) for _ in range(_REPEATS))


def _clock(job: Callable[[int], None], times: int) -> float:
    begin = time.thread_time()
    job(times)
    return (time.thread_time() - begin) / times
