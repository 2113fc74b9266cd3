"""Drive and reconstruction with non-shared patches, one for each unit; `convolution.py` has shared weights.

Such weights are far larger than any cache, so that time goes where they are read. Position by position the
drive reads all patches as they lie in memory; those of active units are still in the cache when the
reconstruction reads them right afterwards. So a step reads the weights once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import copy
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.layout import CACHE_LINE, Scratch, Shape
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.cpu.simd import prefetch
from petabatch.kernels.cpu.sums import dot

_ONE = np.uint64(1)
_AHEAD = 4096
"""How many numbers ahead weights are prefetched, so that memory is busy between positions too."""
_UNITS_AHEAD = 6
"""The same in units, where some are left out."""


@njit(nogil=True, error_model="numpy")
def cut_out(error: Any, start: int, s: Shape, window: Any) -> None:
    """Copy the patch of the padded error image that starts at `start`, `[K]`."""
    for r in range(s.rows):
        row = error[start + r * s.pitch : start + r * s.pitch + s.row]
        copy(row, window[r * s.row : (r + 1) * s.row])


@njit(nogil=True, error_model="numpy")
def add_patch(window: Any, strip: Any, start: int, s: Shape) -> None:
    """Add a patch to a strip."""
    for r in range(s.rows):
        target = strip[start + r * s.pitch : start + r * s.pitch + s.row]
        for i in range(s.row):
            target[i] += window[r * s.row + i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def project_non_shared(start: int, places: Any, patches: Any, s: Shape, work: Scratch) -> None:
    """Write the drive of some positions, `[positions, wide]`; `patches` `[positions, nf, K]` are theirs."""
    window, drive = work.window, work.drive
    for m in range(patches.shape[0]):
        cut_out(work.error, start + places[m], s, window)
        for f in range(patches.shape[1]):
            patch = patches[m, f]
            ahead = (m * patches.shape[1] + f) * patch.size + _AHEAD
            for k in range(0, patch.size, CACHE_LINE):
                prefetch(patches, ahead + k)
            drive[m * s.wide + f] = dot(window, patch)


@njit(nogil=True, error_model="numpy")
def order_by_position(places: Any, counts: Any, order: Any) -> None:
    """Write the indices of units in the order of their places, which are below counts.size - 1.

    Patches of a position lie side by side. In any other order most of the time goes into address translation.
    """
    counts[:] = 0
    for place in places:
        counts[place + _ONE] += _ONE
    for k in range(1, counts.size):
        counts[k] += counts[k - 1]
    for n in range(places.size):
        place = places[n]
        order[counts[place]] = n
        counts[place] += _ONE


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def products_of_units(
    image: Any, offsets: Any, places: Any, units: Any, order: Any, patches: Any, s: Shape, window: Any,
    found: Any,
) -> None:  # fmt: skip
    """Write the products of units at some places, with these offsets in the padded image, in that order."""
    last, at = order.size - 1, -1
    for k in range(order.size):
        n = order[k]
        start = offsets[places[n]]
        if start != at:
            cut_out(image, start, s, window)
            at = start
        ahead = units[order[min(k + _UNITS_AHEAD, last)]] * window.size
        for i in range(0, window.size, CACHE_LINE):
            prefetch(patches, ahead + i)
        found[n] = dot(patches[units[n]], window)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def synthesize_non_shared(patches: Any, places: Any, s: Shape, work: Scratch, strip: Any) -> None:
    """Add the patches of the active units of some positions to a strip, at `places`."""
    active, values, ends, window = work.active, work.values, work.ends, work.window
    for m in range(patches.shape[0]):
        if ends[m] == ends[m + 1]:
            continue
        window[:] = ZERO
        for n in range(ends[m], ends[m + 1]):
            a, patch = values[n], patches[m, active[n]]
            for k in range(patch.size):
                window[k] += a * patch[k]
        add_patch(window, strip, places[m], s)
