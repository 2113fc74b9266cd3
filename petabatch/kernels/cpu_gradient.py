"""The Hebbian product of one slice from its active units only, compiled.

Equal to `outer` of `kernels/array.py` up to rounding, at a cost in proportion to the activity: once per
display it is far below a percent of the steps, so nothing here is tuned further.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from petabatch.geometry import Patches
from petabatch.kernels.cpu_layout import Shape, shape
from petabatch.variable import Array


@njit(nogil=True, fastmath={"nsz", "contract"}, error_model="numpy", cache=True)
def _gradient(A: Any, error: Any, s: Shape, step: int, before: int, product: Any, counts: Any) -> None:
    """See `dictionary_gradient`; the patch of column x starts at float x * step - before of a row."""
    channels = s.row // counts.shape[2]
    for y in range(s.ny):
        top = s.origin - s.top + y * s.stride_y
        dy0, dy1 = max(0, -top), min(s.rows, s.height - top)
        for x in range(s.nx):
            left = x * step - before
            i0, i1 = max(0, -left), min(s.row, s.width - left)
            code = A[y * s.nx + x]
            for f in range(s.features):
                a = code[f]
                if a == 0:
                    continue
                for dy in range(dy0, dy1):
                    source = error[top + dy, left + i0 : left + i1]
                    target = product[f, dy * s.row + i0 : dy * s.row + i1]
                    for i in range(i1 - i0):
                        target[i] += a * source[i]
                    for dx in range(i0 // channels, i1 // channels):
                        counts[f, dy, dx] += 1


def dictionary_gradient(A: Array, error: Array, p: Patches, product: Array, counts: Array) -> None:
    """Write the sum over positions of activity times error patch, and how many active units it comes from.

    `A` is `[ny * nx, nf]` and `error` `[NY, NX * C]`, float32; `product` `[nf, K]` float32 and `counts`
    `[nf, PY, PX]` int64 are overwritten. A weight counts the units that are active and whose patch element
    lies inside the image (`HebbianUpdater.cpp:564-844`, for borders of zeros).
    """
    product[...] = 0
    counts[...] = 0
    before = -p.x.start(0) * p.channels
    _gradient(A, error, shape(p), p.x.stride * p.channels, before, product, counts)
