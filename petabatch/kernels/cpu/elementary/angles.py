"""Sine, cosine and tangent of float32, and the arc tangent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.elementary.numbers import NAN, OPTIONS, ROUND64, bits64, fma

_f, _d, _i = np.float32, np.float64, np.int32


@njit(**OPTIONS)
def _reduced(x: Any) -> tuple[Any, Any]:
    """Return (r, n) with x = r + n pi / 2 and |r| <= pi / 4, in float64; n is right in its last bits."""
    rounded = fma(_d(x), _d(2 / math.pi), ROUND64)
    n = rounded - ROUND64
    r = fma(n, _d(-6.123233995736766e-17), fma(n, _d(-1.5707963267948966), _d(x)))
    return r, _i(bits64(rounded))


@njit(**OPTIONS)
def _sine(r: Any) -> Any:
    z = r * r
    p = fma(fma(_f(-1.9515295891e-4), z, _f(8.3321608736e-3)), z, _f(-1.6666654611e-1))
    return fma(p * z, r, r)


@njit(**OPTIONS)
def _cosine(r: Any) -> Any:
    z = r * r
    p = fma(fma(_f(2.443315711809948e-5), z, _f(-1.388731625493765e-3)), z, _f(4.166664568298827e-2))
    return fma(p * z, z, fma(_f(-0.5), z, _f(1)))


@njit(**OPTIONS)
def sin(x: Any) -> Any:
    """Return sin(x), NaN above 1e15."""
    r, n = _reduced(x)
    s, c = _sine(_f(r)), _cosine(_f(r))
    found = c if n & _i(1) else s
    found = -found if n & _i(2) else found
    return found if abs(x) < _f(1e15) else NAN


@njit(**OPTIONS)
def cos(x: Any) -> Any:
    """Return cos(x), NaN above 1e15."""
    r, n = _reduced(x)
    s, c = _sine(_f(r)), _cosine(_f(r))
    found = s if n & _i(1) else c
    found = -found if (n + _i(1)) & _i(2) else found
    return found if abs(x) < _f(1e15) else NAN


@njit(**OPTIONS)
def tan(x: Any) -> Any:
    """Return tan(x), NaN above 1e15."""
    r, n = _reduced(x)
    z = r * r
    s = _d(2.7557313707070068e-6)  # series, to 1e-9
    s = fma(fma(fma(s, z, _d(-1 / 5040)), z, _d(1 / 120)), z, _d(-1 / 6))
    s = fma(s * z, r, r)
    c = fma(_d(-1 / 3628800), z, _d(1 / 40320))
    c = fma(fma(fma(fma(c, z, _d(-1 / 720)), z, _d(1 / 24)), z, _d(-0.5)), z, _d(1))
    found = _f(-c / s if n & _i(1) else s / c)
    found = x if abs(x) < _f(1e-5) else found
    return found if abs(x) < _f(1e15) else NAN


@njit(**OPTIONS)
def atan(x: Any) -> Any:
    """Return atan(x)."""
    size = _d(abs(x))
    large, middle = size > _d(2.414213562373095), size > _d(0.4142135623730950)
    y = _d(-1) / size if large else ((size - _d(1)) / (size + _d(1)) if middle else size)
    start = _d(math.pi / 2) if large else (_d(math.pi / 4) if middle else _d(0))
    z = y * y
    p = _d(8.05374449538e-2)
    p = fma(fma(fma(p, z, _d(-1.38776856032e-1)), z, _d(1.99777106478e-1)), z, _d(-3.33329491539e-1))
    found = _f(start + fma(p * z, y, y))
    found = -found if x < _f(0) else found
    return x if x == _f(0) else found
