"""Comparison of the features of a position, or of a window of positions, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.elementary import exp
from petabatch.kernels.cpu.jit import njit

LOW, HIGH, WIDTH, OUTSIDE, WITHOUT_ZERO = range(5)
"""Numbers of BINS, as of the layer; whether an input of 0 has no bin."""


@njit(nogil=True, error_model="numpy")
def largest(units: Any, features: int, out: Any) -> None:
    """Write the largest feature of each position."""
    for position in range(out.size):
        found = units[position * features]
        for f in range(1, features):
            a = units[position * features + f]
            # NaN passes, as in numpy.
            if a > found or a != a:
                found = a
        out[position] = found


@njit(nogil=True, error_model="numpy")
def background(units: Any, features: int, copies: int, out: Any) -> None:
    """Write `copies` of a feature that is 1 where all others are 0, and of each of these."""
    for position in range(units.size // features):
        first, to = position * features, position * (features + 1) * copies
        empty = np.float32(1)
        for f in range(features):
            a = units[first + f]
            if a != 0:
                empty = np.float32(0)
            for n in range(copies):
                out[to + (f + 1) * copies + n] = a
        for n in range(copies):
            out[to + n] = empty


@njit(nogil=True, error_model="numpy")
def bins(x: Any, features: int, numbers: Any) -> None:
    """Find the bin of each number in place; see `layers/bins.py`."""
    f = np.float32
    low, high, width, outside = f(numbers[LOW]), f(numbers[HIGH]), f(numbers[WIDTH]), f(numbers[OUTSIDE])
    size = (high - low) / f(features)
    for i in range(x.size):
        given = x[i]
        a = low if given < low else high if given > high else given
        k = i % features
        if a == 0 and numbers[WITHOUT_ZERO] != 0:
            x[i] = outside
        elif width > 0:
            far = (a - (f(k) + f(0.5)) * size) / (width * size)
            x[i] = exp(-far * far / f(2))
        else:
            found = min(np.floor((a - low) / size), f(features - 1))
            x[i] = f(1) if found == f(k) else outside


@njit(nogil=True, error_model="numpy")
def unpool(
    units: Any, places: Any, rows: int, columns: int, nx: int, features: int, out: Any
) -> None:  # fmt: skip
    """Write the units at the largest of each window of `places`, the last of equal ones; 0 elsewhere."""
    out[:] = 0
    pitch = nx * features
    for top in range(0, out.size, rows * pitch):
        for left in range(top, top + pitch, columns * features):
            for f in range(features):
                at, most = left + f, places[left + f]
                for y in range(rows):
                    for x in range(columns):
                        i = left + y * pitch + x * features + f
                        if places[i] >= most:
                            at, most = i, places[i]
                out[at] = units[at]
