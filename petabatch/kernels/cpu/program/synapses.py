"""What single synapses carry, compiled: the work is that of the active units."""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.rules import ZERO


@njit(nogil=True, error_model="numpy")
def scatter(layer: Any, positions: int, starts: Any, targets: Any, weights: Any, out: Any) -> None:
    """Add up the synapses of the active units, in the order of the units."""
    out[:] = ZERO
    pre, post = starts.size - 1, out.size // positions
    for place in range(positions):
        units = layer[place * pre : (place + 1) * pre]
        there = out[place * post : (place + 1) * post]
        for unit in range(pre):
            a = units[unit]
            if a != ZERO:
                for n in range(starts[unit], starts[unit + 1]):
                    there[targets[n]] += a * weights[n]
