"""Exact summation over slices, in integers: the same bits for any order, split or number of ranks.

Let N be the number of slices in the whole run, c = ceil(log2 N), and 2^e > |x| for every x of a feature in
any slice (frexp gives e). Each x becomes the integer q = round(x 2^s) with s = 63 - e - c, ties to even.
Scaling by a power of two is exact in float64, so q depends on x and s alone.

No overflow: if |q| <= 2^(63 - c) - 1, then N terms or fewer make at most N 2^(63 - c) - N < 2^63. Now
|x 2^s| < 2^(63 - c), and for c <= 10 the float64 numbers next below that power are integers, so rounding does
not reach it. For c > 10 it may, and |q| is clipped to 2^(63 - c) - 1.

Error: let M be the largest |x|; 2^e <= 2 M. Rounding costs at most half a unit of 2^-s for each slice, in all
N 2^-(s+1) <= 2^(2c - 64) 2^e <= 2^(2c - 63) M. A q that was clipped, from x = 2^e - t 2^-s, costs 1 - t
units, but then M >= 2^e - t 2^-s, and N (1 - t) 2^-s <= 2^(2c - 63) (2^e - t 2^-s) <= 2^(2c - 63) M as well.
The sum is then rounded once to float64 and once to the dtype of the values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from petabatch.errors import NonFiniteError
from petabatch.kernels.cpu import exact_sum as integers
from petabatch.parallel.comm import Sums
from petabatch.variable import Array, host, module_of

_NOT_FINITE = np.iinfo(np.int32).max
"""Sentinel exponent of a value that is not finite, minus the number of its slice: the maximum over ranks then
identifies the first such slice on every rank."""
_LARGEST_EXPONENT = 1024
_ZERO = -2000
"""The exponent of a feature that is zero in a slice: below that of every number."""
_LARGEST_SHIFT = 1023
"""Keeps 2^s a float64. Only float64 features below 2^(-960 - c) are summed more coarsely, to N 2^-1024."""


class _Part:
    """One of the arrays that are summed in one message."""

    def __init__(self, name: str, values: Array, top: Array, total: Array) -> None:
        self.name, self.values, self.top = name, values, top
        self.flat = values.reshape(len(values), len(top), -1)
        self.total = total.reshape(self.flat.shape[1:])

    def measure(self, first: int) -> None:
        """Set `top`, int32 `[features]`, to e with |x| < 2^e, or to the sentinel if not finite."""
        xp = module_of(self.flat)
        largest = integers.largest(self.flat).astype(np.float64)
        exponents = xp.where(largest == 0, _ZERO, xp.frexp(largest)[1])
        mark = _NOT_FINITE - xp.arange(first, first + len(largest))[:, None]
        self.top[...] = xp.where(xp.isfinite(largest), exponents, mark).max(axis=0)

    def quantise(self, slices: int) -> None:
        """Set `total` to the sum over this rank's slices, in units of 2^-s."""
        integers.add_integers(self.flat, self._scale(slices), 63 - _log2(slices), self.total)

    def result(self, slices: int) -> np.ndarray:
        """Return `total` converted back to floating point, `[1, ...]`."""
        return _cast(self.name, host(self.total) / self._scale(slices), self.values)

    def _scale(self, slices: int) -> np.ndarray:
        shift = 63 - _log2(slices) - host(self.top).astype(np.int64)
        return np.ldexp(1.0, np.minimum(shift, _LARGEST_SHIFT))[:, None]


class ExactSum:
    """The sums of several arrays over all slices of all ranks, in one non-blocking operation.

    `parts` maps the name of an array in errors to `[local slices, ky, kx, nf, ...]`, float32 or float64, with
    one scale per kernel and feature (axes 1 to 3). The arrays must not change until the sums are done.
    `slices` is the number of slices in the whole run, `first` the global number of the first local one.
    Names, and shapes but for the first axis, are the same on all ranks. Arrays on a GPU are rounded and
    summed there, with the same bits.

    Blocking: `ExactSum(...).wait()`. Overlapped with other work: pass copies, poll `test`, `wait` at the end.
    """

    def __init__(self, parts: Mapping[str, Array], comm: Sums, slices: int, first: int) -> None:
        self._comm, self._slices = comm, slices
        xp = module_of(next(iter(parts.values())))
        features = [math.prod(values.shape[1:4]) for values in parts.values()]
        sizes = [math.prod(values.shape[1:]) for values in parts.values()]
        self._top = xp.empty(sum(features), np.int32)
        self._total = xp.zeros(sum(sizes), np.int64)
        tops = xp.split(self._top, list(accumulate(features))[:-1])
        totals = xp.split(self._total, list(accumulate(sizes))[:-1])
        self._parts = [
            _Part(name, values, top, total)
            for (name, values), top, total in zip(parts.items(), tops, totals, strict=True)
        ]
        for part in self._parts:
            part.measure(first)
        self._summing = False
        self._pending = comm.start_max(self._top)

    def test(self) -> bool:
        """Advance the sums without blocking; return whether they are done."""
        if not self._pending.test():
            return False
        if not self._summing and self._top.max() <= _LARGEST_EXPONENT:
            self._sum()
            return self._pending.test()
        return True

    def wait(self) -> dict[str, np.ndarray]:
        """Return each sum, `[1, ky, kx, nf, ...]`, in the dtype of its array; collective.

        Raises NonFiniteError, on all ranks, when a value or a sum is not finite.
        """
        self._pending.wait()
        for part in self._parts:
            _require_finite(part.name, int(part.top.max()))
        if not self._summing:
            self._sum()
        self._pending.wait()
        return {part.name: part.result(self._slices) for part in self._parts}

    def _sum(self) -> None:
        for part in self._parts:
            part.quantise(self._slices)
        self._summing = True
        self._pending = self._comm.start_sum(self._total)


def _log2(slices: int) -> int:
    """Return ceil(log2 slices)."""
    return (slices - 1).bit_length()


def _require_finite(name: str, exponent: int) -> None:
    if exponent > _LARGEST_EXPONENT:
        raise NonFiniteError(f"{name}: not finite in slice {_NOT_FINITE - exponent}")


def _cast(name: str, total: np.ndarray, values: Array) -> np.ndarray:
    """Return the sum in dtype and shape of the values."""
    with np.errstate(over="ignore"):
        found = total.astype(values.dtype).reshape(1, *values.shape[1:])
    if not np.isfinite(found).all():
        raise NonFiniteError(f"{name}: the sum over slices is too large for {found.dtype}")
    return found
