"""The remainder of a division of float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.elementary.numbers import OPTIONS, fma

_f, _d = np.float32, np.float64
_PARTS = 6
"""How often 2^50 is taken off a quotient: two float32 are apart by less than 2^277."""


@njit(**OPTIONS)
def fmod(x: Any, y: Any) -> Any:
    """Return x - y trunc(x / y), exactly: with the sign of x, and smaller than y.

    Of the quotient its first 50 bits or so are taken off at a time, in float64. What is left is a multiple of
    y times the last of these bits, with some 25 bits of its own: no step rounds it.
    """
    a, b = _d(x), _d(y)
    inverse, size = _d(1) / b, abs(b)
    r = a
    for _ in range(_PARTS):
        r = fma(-np.trunc(r * inverse), b, r)
    # The quotient may have been rounded to the next whole number.
    r = r - math.copysign(b, r) if abs(r) >= size else r
    r = r + math.copysign(b, a) if ((r < _d(0)) & (a > _d(0))) | ((r > _d(0)) & (a < _d(0))) else r
    r = a if (size == _d(np.inf)) & (abs(a) < size) else r
    return _f(math.copysign(r, a))
