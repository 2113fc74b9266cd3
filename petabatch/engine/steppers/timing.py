"""Timing of the parts of a compiled step, on the state of a slice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from petabatch.variable import Array

_REPEATS = 7
"""Repetitions of an operation; the minimum time is taken."""
PROGRAM_STEPS = 20
"""Steps in which an operation of a program is made alone."""


def time_program_step(
    jobs: Sequence[tuple[str, Callable[[], object]]], changed: Sequence[Array], slices: int
) -> dict[str, float]:
    """Return the seconds of the operations of a program in a step of a slice, each from the same state.

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
    return times


def _restoring(arrays: Sequence[Array]) -> Callable[[], None]:
    """Return what puts back the present values of arrays."""
    kept = [array.copy() for array in arrays]

    def restore() -> None:
        for array, before in zip(arrays, kept, strict=True):
            array[...] = before

    return restore
