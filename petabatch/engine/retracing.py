"""The step in which a slice was no longer finite: found by making its steps again."""

from __future__ import annotations

import math
from collections.abc import Callable

from petabatch.engine.finite import Watch
from petabatch.engine.lane import Lane
from petabatch.engine.last_finite import LastFinite
from petabatch.errors import NonFiniteError

_TIMES = 10
"""Of a stride as a multiple of the next one: calls take longer than the steps of small networks."""


def error_of_its_step(
    lane: Lane, last: int, repeat: Callable[[int, int], None], watch: Watch
) -> NonFiniteError | None:
    """Return the error of the first step since which a slice is not finite up to `last`; None if unknown.

    `repeat` makes steps of the lane again: those since its state was kept, in strides, then those of the
    first stride that fails in shorter ones, down to single steps. The state is undefined afterwards: the
    slice stops.
    """
    kept = LastFinite(lane.arrays)
    sound, end = kept.traced, last
    if not 0 <= sound < end:
        return None
    kept.rewind()
    if _error(watch, sound) is not None:
        return None
    state = kept.state
    stride = _TIMES ** int(math.log(end - sound, _TIMES))
    while stride:
        found = None
        lane.resume(sound)
        for step in range(sound, end, stride):
            stop = min(step + stride, end)
            repeat(step, stop)
            if (error := _error(watch, stop)) is None:
                sound, state, found = stop, kept.state, None
            else:
                found = found or error
        end, stride = min(sound + stride, end), stride // _TIMES
        kept.set(state)
    return found


def _error(watch: Watch, step: int) -> NonFiniteError | None:
    try:
        watch.check(step)
    except NonFiniteError as error:
        return error
    return None
