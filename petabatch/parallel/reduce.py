"""The exact sum over slices: integers, so that no order, split or number of ranks changes a bit.

With N slices in the whole run, let 2^e bound every |x| of a feature over all slices (x < 2^e, from frexp).
Each x is rounded to the integer q = round(x * 2^s) with s = 63 - e - ceil(log2 N). Then |q| <= 2^(63 - c) with
c = ceil(log2 N), and the sum of N of them is at most N * 2^(63 - c) <= 2^63. That bound is reached only if
every |q| is 2^(63 - c), which needs |x| = 2^e after rounding: float32 and float64 mantissas end below 2^e by
more than the rounding step unless c < 10 for float64, so one bit is kept in reserve: s = 62 - e - c.
Rounding costs at most half a unit of 2^-s for each slice: the error of the sum is at most
N * 2^(e + c - 63) <= 2^(2c - 63) * 2^e, and 2^e is at most twice the largest |x|.
"""

from __future__ import annotations

import numpy as np

from petabatch.errors import NonFiniteError
from petabatch.parallel.comm import Comm

_NOT_FINITE = np.iinfo(np.int32).max


def exact_sum(values: np.ndarray, comm: Comm, slices: int, first: int, what: str) -> np.ndarray:
    """Return the sum `[1, ...]` over all slices of all ranks of `values` `[local slices, ky, kx, nf, ...]`.

    `slices` is the number of slices in the whole run, `first` the global number of the first local one.
    The scale is one per kernel and feature (axes 1 to 3). Raises NonFiniteError, on all ranks together, when a
    value is not finite; `what` names it.
    """
    flat = values.reshape(len(values), int(np.prod(values.shape[1:4])), -1)
    exponents = _exponents(flat)
    bad = np.where(exponents == _NOT_FINITE)[0]
    top = exponents.max(axis=0)
    comm.max_int32(top)
    if np.any(top == _NOT_FINITE):
        found = comm.gather([first + int(i) for i in np.unique(bad)])
        numbers = sorted(n for part in comm.broadcast(found) for n in part)
        raise NonFiniteError(f"{what}: the weight change of slice {numbers[0]} is not finite")
    shift = 62 - int(np.ceil(np.log2(slices))) - top.astype(np.int64)
    total = np.zeros(flat.shape[1:], np.int64)
    for one in flat:
        total += np.rint(np.ldexp(one.astype(np.float64), shift[:, None])).astype(np.int64)
    comm.sum_int64(total)
    result = np.ldexp(total.astype(np.float64), -shift[:, None])
    return result.astype(values.dtype).reshape(1, *values.shape[1:])


def _exponents(flat: np.ndarray) -> np.ndarray:
    """Return int32 `[slices, features]`: e with |x| < 2^e for all x of a feature, or the sentinel."""
    largest = np.abs(flat).max(axis=2)
    exponents = np.frexp(largest.astype(np.float64))[1].astype(np.int32)
    exponents[~np.isfinite(largest)] = _NOT_FINITE
    return exponents
