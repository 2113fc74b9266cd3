"""Spikes at given times, compiled; `layers/spike_times.py` is the reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.operations.updates import Events
from petabatch.kernels.spike_times import EARLY


@njit(nogil=True, error_model="numpy")
def _before(time: float, dt: float) -> Any:
    """Return how many steps there are before that of a spike."""
    # `Clock.steps`, as the reference has it.
    return np.floor(time / dt + EARLY)


@operation(Events)
def _count_spikes(op: Any, step: int) -> None:
    """Write the number of spikes of each unit in a step."""
    times, units, dt, out = op.times, op.units, op.dt, op.out
    out[:] = ZERO
    low, high = 0, times.size
    while low < high:
        middle = (low + high) // 2
        if _before(times[middle], dt) < step - 1:
            low = middle + 1
        else:
            high = middle
    while low < times.size and _before(times[low], dt) == step - 1:
        out[units[low]] += out.dtype.type(1)
        low += 1
