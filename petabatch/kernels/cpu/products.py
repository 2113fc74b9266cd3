"""Matrix products whose bits depend on no library and no processor, unlike those of BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.variable import Array


def multiply(a: Array, b: Array) -> Array:
    """Return a b for matrices `a` `[..., I, K]` and `b` `[..., K, J]`; leading axes are broadcast.

    Sums are over k in order, in the precision of both; where that differs it is numpy's product.
    """
    if a.dtype != b.dtype:
        found: Array = np.matmul(a, b)
        return found
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.empty((*shape, a.shape[-2], b.shape[-1]), a.dtype)
    left, right = (np.ascontiguousarray(one).reshape(-1, *one.shape[-2:]) for one in (a, b))
    places = (np.arange(len(one)).reshape(given.shape[:-2]) for one, given in ((left, a), (right, b)))
    first, second = (np.broadcast_to(one, shape).flatten() for one in places)
    _multiply(left, right, first, second, out.reshape(-1, *out.shape[-2:]))
    return out


@njit(nogil=True, fastmath={"contract"}, error_model="numpy")
def _multiply(a: Any, b: Any, first: Any, second: Any, out: Any) -> None:
    """Write the product of matrices `first[n]` of `a` and `second[n]` of `b` to matrix `n` of `out`."""
    _, rows, length = a.shape
    whole = length - length % 4
    for n in range(len(out)):
        right = b[second[n]]
        for i in range(rows):
            row, factors = out[n, i], a[first[n], i]
            row[:] = 0
            for k in range(0, whole, 4):
                x0, x1, x2, x3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
                if x0 == 0 and x1 == 0 and x2 == 0 and x3 == 0:
                    continue
                b0, b1, b2, b3 = right[k], right[k + 1], right[k + 2], right[k + 3]
                for j in range(row.size):
                    row[j] = (((row[j] + x0 * b0[j]) + x1 * b1[j]) + x2 * b2[j]) + x3 * b3[j]
            for k in range(whole, length):
                x0, b0 = factors[k], right[k]
                for j in range(row.size):
                    row[j] += x0 * b0[j]
