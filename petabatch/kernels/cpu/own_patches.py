"""Drive and reconstruction where each unit has a patch of its own; `cpu.py` has those of shared weights.

Such weights are far larger than any cache, so that time goes where they are read. Position by position the
drive reads all patches, one after the other as they lie in memory; those of active units are in the cache
when the reconstruction reads them right afterwards. So a step reads the weights once, as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.layout import Shape
from petabatch.kernels.cpu.rules import FAST
from petabatch.kernels.cpu.simd import expect

_ZERO = np.float32(0)
_LINE = 16
"""Numbers in a line of memory."""
_AHEAD = 4096
"""How far ahead of what is read memory is asked for more, across the work between positions too."""


@njit(nogil=True, error_model="numpy", cache=True)
def cut_out(error: Any, start: int, s: Shape, window: Any) -> None:
    """Copy the patch of the padded error image that starts at `start`, `[K]`."""
    for r in range(s.rows):
        row = error[start + r * s.pitch : start + r * s.pitch + s.row]
        window[r * s.row : (r + 1) * s.row] = row


@njit(nogil=True, error_model="numpy", cache=True)
def add_in(window: Any, strip: Any, start: int, s: Shape) -> None:
    """Add a patch to a strip."""
    for r in range(s.rows):
        target = strip[start + r * s.pitch : start + r * s.pitch + s.row]
        for i in range(s.row):
            target[i] += window[r * s.row + i]


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def project_own(error: Any, start: int, places: Any, patches: Any, s: Shape, window: Any, drive: Any) -> None:
    """Write the drive of some positions, `[positions, wide]`; `patches` `[positions, nf, K]` are theirs."""
    for m in range(patches.shape[0]):
        cut_out(error, start + places[m], s, window)
        for f in range(patches.shape[1]):
            patch, total = patches[m, f], _ZERO
            ahead = (m * patches.shape[1] + f) * patch.size + _AHEAD
            for k in range(0, patch.size, _LINE):
                expect(patches, ahead + k)
            for k in range(patch.size):
                total += window[k] * patch[k]
            drive[m * s.wide + f] = total


@njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
def synthesize_own(
    active: Any, values: Any, ends: Any, patches: Any, places: Any, s: Shape, window: Any, strip: Any
) -> None:
    """Add the patches of the active units of some positions to a strip, at `places`."""
    for m in range(patches.shape[0]):
        if ends[m] == ends[m + 1]:
            continue
        window[:] = _ZERO
        for n in range(ends[m], ends[m + 1]):
            a, patch = values[n], patches[m, active[n]]
            for k in range(patch.size):
                window[k] += a * patch[k]
        add_in(window, strip, places[m], s)
