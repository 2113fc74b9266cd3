"""Exponentials, logarithms, powers and hyperbolic functions of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.elementary.numbers import (
    INF,
    NAN,
    OPTIONS,
    ROUND,
    ROUND64,
    bits32,
    bits64,
    fma,
    of_bits32,
    of_bits64,
)  # fmt: skip

_f, _d, _i, _l, _u = np.float32, np.float64, np.int32, np.int64, np.uint64
_MIDDLE = _u(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
"""What takes the bits of sqrt(1/2) to those of 1."""


@njit(**OPTIONS)
def _power_of_two(k: Any) -> Any:
    """Return 2^k for k from -126 to 127, infinity for 128."""
    return of_bits32((k + _i(127)) << _i(23))


@njit(**OPTIONS)
def _exponential(x: Any) -> tuple[Any, Any]:
    """Return exp(r) - 1 and k, with x = r + k log 2, |r| <= log(2) / 2; x from -104 to 89."""
    rounded = fma(x, _f(1.44269504), ROUND)
    n = rounded - ROUND
    r = fma(n, _f(-1.42860677e-6), fma(n, _f(-0.693145752), x))
    p = _f(1.9875691500e-4)
    p = fma(p, r, _f(1.3981999507e-3))
    p = fma(p, r, _f(8.3334519073e-3))
    p = fma(p, r, _f(4.1665795894e-2))
    p = fma(p, r, _f(1.6666665459e-1))
    p = fma(p, r, _f(5.0000001201e-1))
    return fma(p * r, r, r), bits32(rounded) - bits32(ROUND)


@njit(**OPTIONS)
def exp(x: Any) -> Any:
    """Return exp(x)."""
    inside = _f(89) if x > _f(89) else x  # NaN passes both bounds
    small, k = _exponential(_f(-104) if inside < _f(-104) else inside)
    half = k >> _i(1)  # 2^k may be no normal number
    return (_f(1) + small) * _power_of_two(half) * _power_of_two(k - half)


@njit(**OPTIONS)
def logistic(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) to 2.5 units in the last place; 0 below -88."""
    inside = _f(89) if x < _f(-88) else -x  # NaN passes both bounds
    small, k = _exponential(_f(-87) if inside < _f(-87) else inside)
    return _f(1) / fma(_f(1) + small, _power_of_two(k), _f(1))


@njit(**OPTIONS)
def expm1(x: Any) -> Any:
    """Return exp(x) - 1."""
    inside = _f(89) if x > _f(89) else (x if x > _f(-30) else _f(-30))
    small, k = _exponential(inside)
    half = _power_of_two(k - _i(1))
    found = _f(2) * fma(small, half, half - _f(0.5))
    found = x if abs(x) < _f(1e-8) else found
    return found if x == x else x


@njit(**OPTIONS)
def _logarithm(m: Any, e: Any, rest: Any) -> Any:
    """Return log(m 2^e) for m from sqrt(1/2) to sqrt(2), plus a small rest."""
    x = m - _f(1)
    y = _f(7.0376836292e-2)
    y = fma(y, x, _f(-1.1514610310e-1))
    y = fma(y, x, _f(1.1676998740e-1))
    y = fma(y, x, _f(-1.2420140846e-1))
    y = fma(y, x, _f(1.4249322787e-1))
    y = fma(y, x, _f(-1.6668057665e-1))
    y = fma(y, x, _f(2.0000714765e-1))
    y = fma(y, x, _f(-2.4999993993e-1))
    y = fma(y, x, _f(3.3333331174e-1))
    square = x * x
    y = fma(y * x, square, fma(e, _f(-2.12194440e-4), rest))
    y = fma(_f(-0.5), square, y)
    return fma(e, _f(0.693359375), x + y)


@njit(**OPTIONS)
def _split(x: Any) -> tuple[Any, Any]:
    """Return (m, e) with x = m 2^e and m from sqrt(1/2) to sqrt(2), for a positive normal x."""
    bits = bits32(x)
    e = (bits - _i(0x3F3504F3)) >> _i(23)
    return of_bits32(bits - (e << _i(23))), _f(e)


@njit(**OPTIONS)
def log(x: Any) -> Any:
    """Return log(x)."""
    tiny = x < _f(1.17549435e-38)
    m, e = _split(x * _f(2.0**25) if tiny else x)
    found = _logarithm(m, e - _f(25) if tiny else e, _f(0))
    found = x if x == INF else found
    found = -INF if x == _f(0) else found
    return found if x >= _f(0) else NAN


@njit(**OPTIONS)
def log1p(x: Any) -> Any:
    """Return log(1 + x)."""
    u = _f(1) + x
    m, e = _split(u if u > _f(1e-8) else _f(1))
    lost = (x - (u - _f(1)) if e < _f(24) else _f(0)) / (u if u > _f(0) else _f(1))
    found = _logarithm(m, e, lost)
    found = x if abs(x) < _f(3e-8) or x == INF else found
    found = -INF if x == _f(-1) else found
    return found if x >= _f(-1) else NAN


@njit(**OPTIONS)
def _exponential64(x: Any) -> Any:
    """Return exp(x) to 1e-12, in float64, for |x| <= 200."""
    rounded = fma(x, _d(1.4426950408889634), ROUND64)
    n = rounded - ROUND64
    r = fma(n, _d(-1.9082149292705877e-10), fma(n, _d(-0.6931471803691238), x))
    p = _d(1 / 3628800)
    p = fma(p, r, _d(1 / 362880))
    p = fma(p, r, _d(1 / 40320))
    p = fma(p, r, _d(1 / 5040))
    p = fma(p, r, _d(1 / 720))
    p = fma(p, r, _d(1 / 120))
    p = fma(p, r, _d(1 / 24))
    p = fma(p, r, _d(1 / 6))
    p = fma(p, r, _d(0.5))
    p = fma(p * r, r, r) + _d(1)
    return p * of_bits64((bits64(rounded) - bits64(ROUND64) + _l(1023)) << _l(52))


@njit(**OPTIONS)
def pow(x: Any, y: Any) -> Any:
    """Return x^y."""
    bits = _u(bits64(_d(abs(x)))) + _MIDDLE
    e = of_bits64(_l((bits >> _u(52)) | _u(0x4330000000000000))) - _d(2**52 + 1023)  # no conversion in AVX2
    m = of_bits64(_l((bits & _u(0xFFFFFFFFFFFFF)) + _u(0x3FE6A09E667F3BCD)))
    s = (m - _d(1)) / (m + _d(1))
    z = s * s
    p = _d(2 / 15)
    p = fma(p, z, _d(2 / 13))
    p = fma(p, z, _d(2 / 11))
    p = fma(p, z, _d(2 / 9))
    p = fma(p, z, _d(2 / 7))
    p = fma(p, z, _d(2 / 5))
    p = fma(p, z, _d(2 / 3))
    log = fma(e, _d(0.6931471805599453), fma(p * z, s, s + s))
    power = _d(y) * log
    power = _d(200) if power > _d(200) else (power if power > _d(-200) else _d(-200))
    found = _f(_exponential64(power))
    rounded = _d(abs(y)) + ROUND64
    whole = rounded - ROUND64 == _d(abs(y))
    odd = whole & ((bits64(rounded) & _l(1)) != _l(0)) & (abs(y) < _f(2.0**24))
    whole |= abs(y) >= _f(2.0**24)
    found = (-found if odd else (found if whole else NAN)) if x < _f(0) else found
    none = _f(0) if y > _f(0) else INF
    found = (-none if odd & (bits32(x) < _i(0)) else none) if x == _f(0) else found
    all_or_none = INF if y > _f(0) else _f(0)
    found = (-all_or_none if odd & (x < _f(0)) else all_or_none) if abs(x) == INF else found
    limit = INF if (abs(x) > _f(1)) == (y > _f(0)) else _f(0)
    found = (_f(1) if abs(x) == _f(1) else limit) if abs(y) == INF else found
    found = found if (x == x) & (y == y) else NAN
    return _f(1) if (y == _f(0)) | (x == _f(1)) else found


@njit(**OPTIONS)
def tanh(x: Any) -> Any:
    """Return tanh(x)."""
    size = abs(x)
    z = x * x
    p = _f(-5.70498872745e-3)
    p = fma(p, z, _f(2.06390887954e-2))
    p = fma(p, z, _f(-5.37397155531e-2))
    p = fma(p, z, _f(1.33314422036e-1))
    p = fma(p, z, _f(-3.33332819422e-1))
    near = fma(p * z, x, x)
    far = _f(1) - _f(2) / (exp(size + size) + _f(1))
    found = -far if x < _f(0) else far
    found = near if size < _f(0.625) else found
    return found if x == x else x


@njit(**OPTIONS)
def sinh(x: Any) -> Any:
    """Return sinh(x)."""
    size = abs(x)
    e = _exponential64(_d(size if size < _f(100) else _f(100)))
    z = x * x
    near = fma(fma(fma(_f(2.03721912945e-4), z, _f(8.33028376239e-3)), z, _f(1.66667160211e-1)) * z, x, x)
    far = _f(_d(0.5) * (e - _d(1) / e))
    far = -far if x < _f(0) else far
    found = near if size < _f(1) else far
    return found if x == x else x


@njit(**OPTIONS)
def cosh(x: Any) -> Any:
    """Return cosh(x)."""
    size = abs(x)
    e = _exponential64(_d(size if size < _f(100) else _f(100)))
    found = _f(_d(0.5) * (e + _d(1) / e))
    return found if x == x else x
