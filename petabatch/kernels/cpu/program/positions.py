"""Comparison of the features of a position, or of a window of positions, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.elementary import exp
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.operations.transport import Compare
from petabatch.kernels.operations.updates import Bins, Unpool


@operation(Compare)
def _compare(op: Any) -> None:
    if op.copies > 0:
        _background(op.source, op.features, op.copies, op.out)
    else:
        _largest(op.source, op.features, op.out)


@njit(nogil=True, error_model="numpy")
def _largest(units: Any, features: int, out: Any) -> None:
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
def _background(units: Any, features: int, copies: int, out: Any) -> None:
    """Write `copies` of a feature that is 1 where all others are 0, and of each of these."""
    for position in range(units.size // features):
        first, to = position * features, position * (features + 1) * copies
        empty = out.dtype.type(1)
        for f in range(features):
            a = units[first + f]
            if a != 0:
                empty = out.dtype.type(0)
            for n in range(copies):
                out[to + (f + 1) * copies + n] = a
        for n in range(copies):
            out[to + n] = empty


@operation(Bins)
def _bins(op: Any) -> None:
    """Find the bin of each number in place; see `layers/bins.py`."""
    x, features = op.out, op.features
    f = x.dtype.type
    low, high, width, outside = f(op.low), f(op.high), f(op.width), f(op.outside)
    size = (high - low) / f(features)
    for i in range(x.size):
        given = x[i]
        a = low if given < low else high if given > high else given
        k = i % features
        if a == 0 and op.without_zero != 0:
            x[i] = outside
        elif width > 0:
            far = (a - (f(k) + f(0.5)) * size) / (width * size)
            x[i] = exp(-far * far / f(2))
        else:
            found = min(np.floor((a - low) / size), f(features - 1))
            x[i] = f(1) if found == f(k) else outside


@operation(Unpool)
def _unpool(op: Any) -> None:
    """Write the units at the largest of each window of `places`, the last of equal ones; 0 elsewhere."""
    units, places, rows, columns, out = op.source, op.places, op.rows, op.columns, op.out
    nx, features = op.shape
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
