"""Elementary functions of float64: argument reduction and series in double-double arithmetic.

Errors are below 1.6 ulp. Arguments are reduced by multiples of log 2 and of pi / 2 with fused multiply-adds,
which are exact there. Where float64 is not enough, sums and products are pairs (high, low) of numbers
(Dekker 1971).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from petabatch.kernels.cpu.elementary.numbers import OPTIONS, ROUND64, bits64, fma, of_bits64

_d, _i, _l = np.float64, np.int32, np.int64
_LOG2, _LOG2_LOW = math.log(2), 2.3190468138462996e-17
_LOG2_SHORT, _LOG2_REST = 0.6931471805598903, 5.497923018708371e-14
"""log 2 rounded to 42 bits, whose products with exponents are exact, and the remainder."""
_QUARTER = (math.pi / 2, 6.123233995736766e-17, -1.4973849048591698e-33)
"""pi / 2, in parts."""
_EIGHTH_LOW, _TWO_THIRDS_LOW = 3.061616997868383e-17, 3.700743415417188e-17
"""What pi / 4 and 2 / 3 are above their nearest numbers."""
_MIDDLE = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2)."""


def _series(*coefficients: float) -> Any:
    """Return the compiled polynomial of these coefficients, that of 1 first."""
    text = repr(coefficients[-1])
    for one in coefficients[-2::-1]:
        text = f"fma({text}, z, {one!r})"
    return njit(**OPTIONS)(eval(f"lambda z: {text}", {"fma": fma}))


def _inverse(n: int) -> float:
    return 1 / math.factorial(n)


_of_exp = _series(*(_inverse(n) for n in range(2, 14)))
_of_log = _series(*(2 / n for n in range(3, 23, 2)))
_of_power = _series(*(2 / n for n in range(5, 25, 2)))
_of_sine = _series(*((-1) ** n * _inverse(2 * n + 1) for n in range(1, 9)))
_of_cosine = _series(*((-1) ** n * _inverse(2 * n) for n in range(2, 9)))
_of_sinh = _series(*(_inverse(2 * n + 1) for n in range(1, 10)))
_of_cosh = _series(*(_inverse(2 * n) for n in range(1, 9)))
_of_atan = _series(*((-1) ** n / (2 * n + 1) for n in range(1, 22)))


@njit(**OPTIONS)
def _sum(a: Any, b: Any) -> Any:
    """Return a + b as a pair, |a| not below |b|."""
    high = a + b
    return high, (a - high) + b


@njit(**OPTIONS)
def _any_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b as a pair."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@njit(**OPTIONS)
def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a b as a pair."""
    high = a * b
    return high, fma(a, b, -high)


@njit(**OPTIONS)
def _quotient(a: Any, a_low: Any, b: Any, b_low: Any) -> tuple[Any, Any]:
    """Return the quotient of two pairs."""
    high = a / b
    return high, (fma(-high, b, a) + (a_low - high * b_low)) / b


@njit(**OPTIONS)
def _power_of_two(k: Any) -> Any:
    """Return 2^k for k from -1022 to 1023."""
    return of_bits64((k + _l(1023)) << _l(52))


@njit(**OPTIONS)
def _exponential(x: Any, rest: Any) -> tuple[Any, Any]:
    """Return exp(r) - 1 and k, with x + rest = r + k log 2, |r| <= log(2) / 2; rest is small."""
    rounded = fma(x, _d(1 / _LOG2), ROUND64)
    n = rounded - ROUND64
    whole = fma(-n, _d(_LOG2), x)  # exact
    less = fma(n, _d(_LOG2_LOW), -rest)
    r = whole - less
    lost = (whole - r) - less
    small = fma(_of_exp(r) * r, r, fma(lost, r, lost)) + r
    return small, bits64(rounded) - bits64(ROUND64)


@njit(**OPTIONS)
def _scaled(a: Any, k: Any) -> Any:
    """Return a 2^k, which may be no normal number."""
    half = k >> _l(1)
    return a * _power_of_two(half) * _power_of_two(k - half)


@njit(**OPTIONS)
def _exp(x: Any, rest: Any) -> Any:
    inside = _d(710) if x > _d(710) else x  # NaN passes both bounds
    small, k = _exponential(_d(-746) if inside < _d(-746) else inside, rest)
    return _scaled(_d(1) + small, k)


@njit(**OPTIONS)
def exp(x: Any) -> Any:
    """Return exp(x)."""
    return _exp(_d(x), _d(0))


@njit(**OPTIONS)
def logistic(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return _d(1) / (_d(1) + exp(-x))


@njit(**OPTIONS)
def expm1(x: Any) -> Any:
    """Return exp(x) - 1."""
    x = _d(x)
    inside = _d(710) if x > _d(710) else (x if x > _d(-40) else _d(-40))
    small, k = _exponential(inside, _d(0))
    half = _power_of_two(k - _l(1))
    found = _d(2) * fma(small, half, half - _d(0.5))
    found = x if abs(x) < _d(1e-17) else found
    return found if x == x else x


@njit(**OPTIONS)
def _split(x: Any) -> tuple[Any, Any]:
    """Return (m, e) with x = m 2^e and m from sqrt(1/2) to sqrt(2), for a positive normal x."""
    bits = bits64(x) - _l(_MIDDLE)
    # The exponent as a number without a conversion, which AVX2 does not have.
    e = of_bits64(((bits >> _l(52)) + _l(1 << 51)) | _l(0x4330000000000000)) - _d(2**52 + 2**51)
    return of_bits64((bits & _l(0xFFFFFFFFFFFFF)) + _l(_MIDDLE)), e


@njit(**OPTIONS)
def _logarithm(f: Any, e: Any, rest: Any) -> Any:
    """Return log((1 + f) 2^e) plus a small rest, for 1 + f from sqrt(1/2) to sqrt(2)."""
    s = f / (_d(2) + f)
    z = s * s
    half = _d(0.5) * f * f
    low = fma(e, _d(_LOG2_REST), rest) + s * fma(_of_log(z), z, half)
    return fma(e, _d(_LOG2_SHORT), f - (half - low))


@njit(**OPTIONS)
def log(x: Any) -> Any:
    """Return log(x)."""
    x = _d(x)
    tiny = x < _d(2.2250738585072014e-308)
    m, e = _split(x * _d(2.0**54) if tiny else x)
    found = _logarithm(m - _d(1), e - _d(54) if tiny else e, _d(0))
    found = x if x == _d(np.inf) else found
    found = -_d(np.inf) if x == _d(0) else found
    return found if x >= _d(0) else _d(np.nan)


@njit(**OPTIONS)
def log1p(x: Any) -> Any:
    """Return log(1 + x)."""
    x = _d(x)
    u = _d(1) + x
    m, e = _split(u if u > _d(1e-17) else _d(1))
    near = e == _d(0)
    lost = _d(0) if near | (e > _d(54)) else (x - (u - _d(1))) / (u if u > _d(0) else _d(1))
    found = _logarithm(x if near else m - _d(1), e, lost)
    found = x if abs(x) < _d(1e-17) or x == _d(np.inf) else found
    found = -_d(np.inf) if x == _d(-1) else found
    return found if x >= _d(-1) else _d(np.nan)


@njit(**OPTIONS)
def _wide_logarithm(x: Any) -> Any:
    """Return log(x) as a pair, to 2^-64, for a positive x."""
    tiny = x < _d(2.2250738585072014e-308)
    m, e = _split(x * _d(2.0**54) if tiny else x)
    e = e - _d(54) if tiny else e
    f = m - _d(1)
    # s = f / (2 + f), z = s^2
    below, below_low = _sum(_d(2), f)
    s = f / below
    s_low = (fma(-s, below, f) - s * below_low) / below
    z, z_low = _product(s, s)
    z_low = fma(_d(2) * s, s_low, z_low)
    # log(m) = 2 s + s z (2/3 + 2/5 z + ...)
    c, c_low = _sum(_d(2 / 3), _of_power(z) * z)
    c_low += _d(_TWO_THIRDS_LOW)
    cube, cube_low = _product(s, z)
    cube_low = fma(s, z_low, fma(s_low, z, cube_low))
    more, more_low = _product(cube, c)
    more_low = fma(cube, c_low, fma(cube_low, c, more_low))
    high, low = _sum(_d(2) * s, more)
    low += fma(_d(2), s_low, more_low)
    found, rest = _any_sum(e * _d(_LOG2_SHORT), high)
    return _sum(found, rest + fma(e, _d(_LOG2_REST), low))


@njit(**OPTIONS)
def pow(x: Any, y: Any) -> Any:
    """Return x^y."""
    x, y = _d(x), _d(y)
    size = abs(x)
    high, low = _wide_logarithm(size if (size > _d(0)) & (size < _d(np.inf)) else _d(1))
    usual = y if abs(y) < _d(1e300) else math.copysign(_d(1e300), y)
    power = usual * high
    inside = abs(power) < _d(800)
    rest = fma(usual, low, fma(usual, high, -power)) if inside else _d(0)
    found = _exp(power if inside else math.copysign(_d(800), power), rest)
    whole = np.floor(y) == y
    odd = whole & (np.floor(_d(0.5) * y) != _d(0.5) * y)
    found = (-found if odd else (found if whole else _d(np.nan))) if x < _d(0) else found
    inf = _d(np.inf)
    none = _d(0) if y > _d(0) else inf
    found = (-none if odd & (bits64(x) < _l(0)) else none) if x == _d(0) else found
    all_or_none = inf if y > _d(0) else _d(0)
    found = (-all_or_none if odd & (x < _d(0)) else all_or_none) if size == inf else found
    limit = inf if (size > _d(1)) == (y > _d(0)) else _d(0)
    found = (_d(1) if size == _d(1) else limit) if abs(y) == inf else found
    found = found if (x == x) & (y == y) else _d(np.nan)
    return _d(1) if (y == _d(0)) | (x == _d(1)) else found


@njit(**OPTIONS)
def tanh(x: Any) -> Any:
    """Return tanh(x)."""
    x = _d(x)
    size = abs(x)
    z = x * x
    s, s_low = _sum(x, _of_sinh(z) * z * x)
    c, c_low = _sum(_d(1), _of_cosh(z) * z)
    near, low = _quotient(s, s_low, c, c_low)
    far = _d(1) - _d(2) / (exp(size + size) + _d(1))
    found = near + low if size < _d(0.55) else math.copysign(far, x)
    found = x if size < _d(1e-9) else found
    return found if x == x else x


@njit(**OPTIONS)
def _half_exp(size: Any) -> Any:
    """Return exp(size) / 2 of a number that is not negative."""
    small, k = _exponential(size if size < _d(711) else _d(711), _d(0))
    return _scaled(_d(1) + small, k - _l(1))


@njit(**OPTIONS)
def sinh(x: Any) -> Any:
    """Return sinh(x)."""
    x = _d(x)
    size = abs(x)
    z, half = x * x, _half_exp(size)
    near = fma(_of_sinh(z) * z, x, x)
    found = near if size < _d(1) else math.copysign(half - _d(0.25) / half, x)
    found = x if size < _d(1e-9) else found
    return found if x == x else x


@njit(**OPTIONS)
def cosh(x: Any) -> Any:
    """Return cosh(x)."""
    x = _d(x)
    half = _half_exp(abs(x))
    found = half + _d(0.25) / half
    return found if x == x else x


@njit(**OPTIONS)
def _reduced(x: Any) -> tuple[Any, Any, Any]:
    """Return (r, rest, n) with x = r + rest + n pi / 2 and |r| <= pi / 4; n is right in its last bits."""
    rounded = fma(x, _d(2 / math.pi), ROUND64)
    n = rounded - ROUND64
    whole = fma(-n, _d(_QUARTER[0]), x)  # exact: its last bit is that of pi / 2, or of x
    part, part_low = _product(n, _d(_QUARTER[1]))
    r, lost = _any_sum(whole, -part)
    return *_sum(r, lost - fma(n, _d(_QUARTER[2]), part_low)), _i(bits64(rounded))


@njit(**OPTIONS)
def _sine(r: Any, rest: Any) -> Any:
    """Return sin(r + rest) as a pair."""
    z = r * r
    return _sum(r, fma(_of_sine(z) * z, r, fma(_d(-0.5) * z, rest, rest)))


@njit(**OPTIONS)
def _cosine(r: Any, rest: Any) -> Any:
    """Return cos(r + rest) as a pair."""
    z, z_low = _product(r, r)
    high, low = _sum(_d(1), _d(-0.5) * z)
    return _sum(high, fma(_of_cosine(z) * z, z, fma(-r, rest, fma(_d(-0.5), z_low, low))))


@njit(**OPTIONS)
def sin(x: Any) -> Any:
    """Return sin(x), NaN above 1e15."""
    x = _d(x)
    r, rest, n = _reduced(x)
    (s, _), (c, _) = _sine(r, rest), _cosine(r, rest)
    found = c if n & _i(1) else s
    found = -found if n & _i(2) else found
    found = x if x == _d(0) else found
    return found if abs(x) < _d(1e15) else _d(np.nan)


@njit(**OPTIONS)
def cos(x: Any) -> Any:
    """Return cos(x), NaN above 1e15."""
    x = _d(x)
    r, rest, n = _reduced(x)
    (s, _), (c, _) = _sine(r, rest), _cosine(r, rest)
    found = s if n & _i(1) else c
    found = -found if (n + _i(1)) & _i(2) else found
    return found if abs(x) < _d(1e15) else _d(np.nan)


@njit(**OPTIONS)
def tan(x: Any) -> Any:
    """Return tan(x), NaN above 1e15."""
    x = _d(x)
    r, rest, n = _reduced(x)
    (s, s_low), (c, c_low) = _sine(r, rest), _cosine(r, rest)
    odd = (n & _i(1)) != _i(0)
    a, a_low = -c if odd else s, -c_low if odd else s_low
    b, b_low = s if odd else c, s_low if odd else c_low
    found, low = _quotient(a, a_low, b, b_low)
    found = x if abs(x) < _d(1e-9) else found + low
    return found if abs(x) < _d(1e15) else _d(np.nan)


@njit(**OPTIONS)
def atan(x: Any) -> Any:
    """Return atan(x)."""
    x = _d(x)
    size = abs(x)
    large, middle = size > _d(2.414213562373095), size > _d(0.4142135623730950)
    # atan(size) = start + atan(above / below)
    less, less_low = _any_sum(size, _d(-1))
    more, more_low = _any_sum(size, _d(1))
    above = _d(-1) if large else (less if middle else size)
    below = size if large else (more if middle else _d(1))
    above_low = less_low if middle and not large else _d(0)
    below_low = more_low if middle and not large else _d(0)
    y, low = _quotient(above, above_low, below, below_low)
    y, low = (_d(0), _d(0)) if size == _d(np.inf) else (y, low)
    start = _d(math.pi / 2) if large else (_d(math.pi / 4) if middle else _d(0))
    rest = _d(_QUARTER[1]) if large else (_d(_EIGHTH_LOW) if middle else _d(0))
    z = y * y
    found = start + (fma(_of_atan(z) * z, y, fma(-z, low, low) + rest) + y)
    found = math.copysign(found, x)
    return x if size < _d(1e-9) else found
