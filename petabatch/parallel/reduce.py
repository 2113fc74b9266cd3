"""The exact sum over slices: in integers, so that no order, split or number of ranks changes a bit.

Let N be the number of slices in the whole run, c = ceil(log2 N), and 2^e > |x| for every x of a feature in
any slice (frexp gives e). Each x becomes the integer q = round(x 2^s) with s = 62 - e - c.

No overflow: |q| <= 2^(62 - c), so a sum of N terms is at most N 2^(62 - c) <= 2^62 < 2^63, and so is every
partial sum. Small error: rounding costs at most 2^-(s+1) for each slice, N 2^-(s+1) <= 2^(2c - 63) 2^e in
all, and 2^e is at most twice the largest |x|: the sum is exact to 2^(2c - 62) of the feature's largest
element.
"""

from __future__ import annotations

import numpy as np

from petabatch.errors import NonFiniteError
from petabatch.parallel.comm import Comm

_NOT_FINITE = np.iinfo(np.int32).max
_LARGEST_SHIFT = 1000
"""Keeps 2^s a float64; only features below 2^-938 are rounded more coarsely for it."""


def exact_sum(values: np.ndarray, comm: Comm, slices: int, first: int, what: str) -> np.ndarray:
    """Return the sum `[1, ...]` over all slices of all ranks of `values` `[local slices, ky, kx, nf, ...]`.

    `slices` is the number of slices in the whole run, `first` the global number of the first local one. The
    scale is one per kernel and feature (axes 1 to 3). Raises NonFiniteError, on all ranks together, when a
    value is not finite; `what` names it.
    """
    flat = values.reshape(len(values), int(np.prod(values.shape[1:4])), -1)
    exponents = _exponents(flat)
    top = exponents.max(axis=0)
    comm.max_int32(top)
    if np.any(top == _NOT_FINITE):
        here = [first + int(i) for i in np.flatnonzero((exponents == _NOT_FINITE).any(axis=1))]
        numbers = [n for part in comm.broadcast(comm.gather(here)) for n in part]
        raise NonFiniteError(f"{what}: the weight change of slice {min(numbers)} is not finite")
    shift = 62 - (slices - 1).bit_length() - top.astype(np.int64)
    scale = np.ldexp(1.0, np.minimum(shift, _LARGEST_SHIFT))[:, None]
    total = np.zeros(flat.shape[1:], np.int64)
    scaled = np.empty(flat.shape[1:])
    for one in flat:
        np.multiply(one, scale, out=scaled)
        total += np.rint(scaled, out=scaled).astype(np.int64)
    comm.sum_int64(total)
    return (total / scale).astype(values.dtype).reshape(1, *values.shape[1:])


def _exponents(flat: np.ndarray) -> np.ndarray:
    """Return int32 `[slices, features]`: e with |x| < 2^e for all x of a feature, or the sentinel."""
    largest = np.maximum(flat.max(axis=2), -flat.min(axis=2)).astype(np.float64)
    exponents = np.frexp(largest)[1].astype(np.int32)
    exponents[~np.isfinite(largest)] = _NOT_FINITE
    return exponents
