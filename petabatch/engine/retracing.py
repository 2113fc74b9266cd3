"""The step in which a slice was no longer finite: found by making its steps again."""

from __future__ import annotations

import math
from collections.abc import Callable

from petabatch.engine.finite import Watch
from petabatch.engine.lane import Lane
from petabatch.engine.last_finite import LastFinite
from petabatch.errors import NonFiniteError


def error_of_its_step(
    lane: Lane, last: int, repeat: Callable[[int, int], None], watch: Watch
) -> NonFiniteError | None:
    """Return the error of the first step since which a slice is not finite up to `last`; None if unknown.

    `repeat` makes steps of the lane again: those since its state was kept, in strides of which the last sound
    one is looked for, then those of the next stride one by one. The state is void after it: the slice stops.
    """
    kept = LastFinite(lane.arrays)
    first = kept.traced
    if not 0 <= first < last:
        return None
    kept.rewind()
    if _error(watch, first) is not None:
        return None
    stride, sound, state = math.isqrt(last - first), first, kept.state
    lane.resume(first)
    for step in range(first, last, stride):
        stop = min(step + stride, last)
        repeat(step, stop)
        if _error(watch, stop) is None:
            sound, state = stop, kept.state
    kept.set(state)
    lane.resume(sound)
    found: NonFiniteError | None = None
    for step in range(sound + 1, min(sound + stride, last) + 1):
        repeat(step - 1, step)
        error = _error(watch, step)
        found = None if error is None else found or error
    return found


def _error(watch: Watch, step: int) -> NonFiniteError | None:
    try:
        watch.check(step)
    except NonFiniteError as error:
        return error
    return None
