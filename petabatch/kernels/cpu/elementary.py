"""Elementary functions of float32 in row functions: polynomials, which compilers make vectors of.

Each has the bits of no library and no processor: sums are in the order of the code, and multiply-adds are
fused where it says so. Errors are below 2 units in the last place (`tests/kernels/cpu/test_elementary.py`).
Angles above 1e15, whose neighbours are 6e7 apart, give NaN. In float64 they are those of the C library.

`MATH` is `math` with them; row functions are compiled with it.

Polynomials and reductions are those of Moshier's Cephes (`expf.c`, `logf.c`, `sinf.c`, `tanhf.c`, `atanf.c`);
multiples of pi / 2 and of log 2 are taken off in parts (Cody & Waite 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

_f, _d, _i, _l, _u = np.float32, np.float64, np.int32, np.int64, np.uint64
_OPTIONS = {"nogil": True, "error_model": "numpy", "forceinline": True}
_NAN, _INF = _f(np.nan), _f(np.inf)
_MIDDLE = _u(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
"""What takes the bits of sqrt(1/2) to those of 1."""


@intrinsic
def _fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return a(a, a, a), generate


def _reinterpreted(source: Any, result: Any, to: ir.Type) -> Any:
    """Return the function that takes the bits of a number as those of another."""

    @intrinsic
    def reinterpret(typing: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], to)

        return result(source), generate

    return reinterpret


_bits = _reinterpreted(types.float32, types.int32, ir.IntType(32))
_of_bits = _reinterpreted(types.int32, types.float32, ir.FloatType())
_bits64 = _reinterpreted(types.float64, types.int64, ir.IntType(64))
_of_bits64 = _reinterpreted(types.int64, types.float64, ir.DoubleType())

_ROUND = _f(1.5 * 2**23)
"""A number that rounds to an integer what it is added to, and has that in its last bits."""
_ROUND64 = _d(1.5 * 2**52)


@njit(**_OPTIONS)
def _power_of_two(k: Any) -> Any:
    """Return 2^k for k from -126 to 127."""
    return _of_bits((k + _i(127)) << _i(23))


@njit(**_OPTIONS)
def _exponential(x: Any) -> tuple[Any, Any]:
    """Return exp(r) - 1 and k, with x = r + k log 2, |r| <= log(2) / 2; x from -104 to 89."""
    rounded = _fma(x, _f(1.44269504), _ROUND)
    n = rounded - _ROUND
    r = _fma(n, _f(-1.42860677e-6), _fma(n, _f(-0.693145752), x))
    p = _f(1.9875691500e-4)
    p = _fma(p, r, _f(1.3981999507e-3))
    p = _fma(p, r, _f(8.3334519073e-3))
    p = _fma(p, r, _f(4.1665795894e-2))
    p = _fma(p, r, _f(1.6666665459e-1))
    p = _fma(p, r, _f(5.0000001201e-1))
    return _fma(p * r, r, r), _bits(rounded) - _bits(_ROUND)


@njit(**_OPTIONS)
def _exp(x: Any) -> Any:
    inside = _f(89) if x > _f(89) else (x if x > _f(-104) else _f(-104))
    small, k = _exponential(inside)
    half = k >> _i(1)  # 2^k may be no normal number
    found = (_f(1) + small) * _power_of_two(half) * _power_of_two(k - half)
    return found if x == x else x


@njit(**_OPTIONS)
def _expm1(x: Any) -> Any:
    inside = _f(89) if x > _f(89) else (x if x > _f(-30) else _f(-30))
    small, k = _exponential(inside)
    half = _power_of_two(k - _i(1))
    found = _f(2) * _fma(small, half, half - _f(0.5))
    found = x if abs(x) < _f(1e-8) else found
    return found if x == x else x


@njit(**_OPTIONS)
def _logarithm(m: Any, e: Any, rest: Any) -> Any:
    """Return log(m 2^e) for m from sqrt(1/2) to sqrt(2), plus a small rest."""
    x = m - _f(1)
    y = _f(7.0376836292e-2)
    y = _fma(y, x, _f(-1.1514610310e-1))
    y = _fma(y, x, _f(1.1676998740e-1))
    y = _fma(y, x, _f(-1.2420140846e-1))
    y = _fma(y, x, _f(1.4249322787e-1))
    y = _fma(y, x, _f(-1.6668057665e-1))
    y = _fma(y, x, _f(2.0000714765e-1))
    y = _fma(y, x, _f(-2.4999993993e-1))
    y = _fma(y, x, _f(3.3333331174e-1))
    square = x * x
    y = _fma(y * x, square, _fma(e, _f(-2.12194440e-4), rest))
    y = _fma(_f(-0.5), square, y)
    return _fma(e, _f(0.693359375), x + y)


@njit(**_OPTIONS)
def _split(x: Any) -> tuple[Any, Any]:
    """Return (m, e) with x = m 2^e and m from sqrt(1/2) to sqrt(2), for a positive normal x."""
    bits = _bits(x)
    e = (bits - _i(0x3F3504F3)) >> _i(23)
    return _of_bits(bits - (e << _i(23))), _f(e)


@njit(**_OPTIONS)
def _log(x: Any) -> Any:
    tiny = x < _f(1.17549435e-38)
    m, e = _split(x * _f(2.0**25) if tiny else x)
    found = _logarithm(m, e - _f(25) if tiny else e, _f(0))
    found = x if x == _INF else found
    found = -_INF if x == _f(0) else found
    return found if x >= _f(0) else _NAN


@njit(**_OPTIONS)
def _log1p(x: Any) -> Any:
    u = _f(1) + x
    m, e = _split(u if u > _f(1e-8) else _f(1))
    lost = (x - (u - _f(1)) if e < _f(24) else _f(0)) / (u if u > _f(0) else _f(1))
    found = _logarithm(m, e, lost)
    found = x if abs(x) < _f(3e-8) or x == _INF else found
    found = -_INF if x == _f(-1) else found
    return found if x >= _f(-1) else _NAN


@njit(**_OPTIONS)
def _reduced(x: Any) -> tuple[Any, Any]:
    """Return (r, n) with x = r + n pi / 2 and |r| <= pi / 4, in float64; n is right in its last bits."""
    rounded = _fma(_d(x), _d(2 / math.pi), _ROUND64)
    n = rounded - _ROUND64
    r = _fma(n, _d(-6.123233995736766e-17), _fma(n, _d(-1.5707963267948966), _d(x)))
    return r, _i(_bits64(rounded))


@njit(**_OPTIONS)
def _sine(r: Any) -> Any:
    z = r * r
    p = _fma(_fma(_f(-1.9515295891e-4), z, _f(8.3321608736e-3)), z, _f(-1.6666654611e-1))
    return _fma(p * z, r, r)


@njit(**_OPTIONS)
def _cosine(r: Any) -> Any:
    z = r * r
    p = _fma(_fma(_f(2.443315711809948e-5), z, _f(-1.388731625493765e-3)), z, _f(4.166664568298827e-2))
    return _fma(p * z, z, _fma(_f(-0.5), z, _f(1)))


@njit(**_OPTIONS)
def _sin(x: Any) -> Any:
    r, n = _reduced(x)
    s, c = _sine(_f(r)), _cosine(_f(r))
    found = c if n & _i(1) else s
    found = -found if n & _i(2) else found
    return found if abs(x) < _f(1e15) else _NAN


@njit(**_OPTIONS)
def _cos(x: Any) -> Any:
    r, n = _reduced(x)
    s, c = _sine(_f(r)), _cosine(_f(r))
    found = s if n & _i(1) else c
    found = -found if (n + _i(1)) & _i(2) else found
    return found if abs(x) < _f(1e15) else _NAN


@njit(**_OPTIONS)
def _tan(x: Any) -> Any:
    r, n = _reduced(x)
    z = r * r
    s = _d(2.7557313707070068e-6)  # series, to 1e-9
    s = _fma(_fma(_fma(s, z, _d(-1 / 5040)), z, _d(1 / 120)), z, _d(-1 / 6))
    s = _fma(s * z, r, r)
    c = _fma(_d(-1 / 3628800), z, _d(1 / 40320))
    c = _fma(_fma(_fma(_fma(c, z, _d(-1 / 720)), z, _d(1 / 24)), z, _d(-0.5)), z, _d(1))
    found = _f(-c / s if n & _i(1) else s / c)
    found = x if abs(x) < _f(1e-5) else found
    return found if abs(x) < _f(1e15) else _NAN


@njit(**_OPTIONS)
def _tanh(x: Any) -> Any:
    size = abs(x)
    z = x * x
    p = _f(-5.70498872745e-3)
    p = _fma(p, z, _f(2.06390887954e-2))
    p = _fma(p, z, _f(-5.37397155531e-2))
    p = _fma(p, z, _f(1.33314422036e-1))
    p = _fma(p, z, _f(-3.33332819422e-1))
    near = _fma(p * z, x, x)
    far = _f(1) - _f(2) / (_exp(size + size) + _f(1))
    found = -far if x < _f(0) else far
    found = near if size < _f(0.625) else found
    return found if x == x else x


@njit(**_OPTIONS)
def _exponential64(x: Any) -> Any:
    """Return exp(x) to 1e-12, in float64, for |x| <= 200."""
    rounded = _fma(x, _d(1.4426950408889634), _ROUND64)
    n = rounded - _ROUND64
    r = _fma(n, _d(-1.9082149292705877e-10), _fma(n, _d(-0.6931471803691238), x))
    p = _d(1 / 3628800)
    p = _fma(p, r, _d(1 / 362880))
    p = _fma(p, r, _d(1 / 40320))
    p = _fma(p, r, _d(1 / 5040))
    p = _fma(p, r, _d(1 / 720))
    p = _fma(p, r, _d(1 / 120))
    p = _fma(p, r, _d(1 / 24))
    p = _fma(p, r, _d(1 / 6))
    p = _fma(p, r, _d(0.5))
    p = _fma(p * r, r, r) + _d(1)
    return p * _of_bits64((_bits64(rounded) - _bits64(_ROUND64) + _l(1023)) << _l(52))


@njit(**_OPTIONS)
def _sinh(x: Any) -> Any:
    size = abs(x)
    e = _exponential64(_d(size if size < _f(100) else _f(100)))
    z = x * x
    near = _fma(_fma(_fma(_f(2.03721912945e-4), z, _f(8.33028376239e-3)), z, _f(1.66667160211e-1)) * z, x, x)
    far = _f(_d(0.5) * (e - _d(1) / e))
    far = -far if x < _f(0) else far
    found = near if size < _f(1) else far
    return found if x == x else x


@njit(**_OPTIONS)
def _cosh(x: Any) -> Any:
    size = abs(x)
    e = _exponential64(_d(size if size < _f(100) else _f(100)))
    found = _f(_d(0.5) * (e + _d(1) / e))
    return found if x == x else x


@njit(**_OPTIONS)
def _atan(x: Any) -> Any:
    size = _d(abs(x))
    large, middle = size > _d(2.414213562373095), size > _d(0.4142135623730950)
    y = _d(-1) / size if large else ((size - _d(1)) / (size + _d(1)) if middle else size)
    start = _d(math.pi / 2) if large else (_d(math.pi / 4) if middle else _d(0))
    z = y * y
    p = _d(8.05374449538e-2)
    p = _fma(_fma(_fma(p, z, _d(-1.38776856032e-1)), z, _d(1.99777106478e-1)), z, _d(-3.33329491539e-1))
    found = _f(start + _fma(p * z, y, y))
    found = -found if x < _f(0) else found
    return x if x == _f(0) else found


@njit(**_OPTIONS)
def _pow(x: Any, y: Any) -> Any:
    bits = _u(_bits64(_d(abs(x)))) + _MIDDLE
    e = _of_bits64(_l((bits >> _u(52)) | _u(0x4330000000000000))) - _d(2**52 + 1023)  # no conversion in AVX2
    m = _of_bits64(_l((bits & _u(0xFFFFFFFFFFFFF)) + _u(0x3FE6A09E667F3BCD)))
    s = (m - _d(1)) / (m + _d(1))
    z = s * s
    p = _d(2 / 15)
    p = _fma(p, z, _d(2 / 13))
    p = _fma(p, z, _d(2 / 11))
    p = _fma(p, z, _d(2 / 9))
    p = _fma(p, z, _d(2 / 7))
    p = _fma(p, z, _d(2 / 5))
    p = _fma(p, z, _d(2 / 3))
    log = _fma(e, _d(0.6931471805599453), _fma(p * z, s, s + s))
    power = _d(y) * log
    power = _d(200) if power > _d(200) else (power if power > _d(-200) else _d(-200))
    found = _f(_exponential64(power))
    rounded = _d(abs(y)) + _ROUND64
    whole = rounded - _ROUND64 == _d(abs(y))
    odd = whole & ((_bits64(rounded) & _l(1)) != _l(0)) & (abs(y) < _f(2.0**24))
    whole |= abs(y) >= _f(2.0**24)
    found = (-found if odd else (found if whole else _NAN)) if x < _f(0) else found
    none = _f(0) if y > _f(0) else _INF
    found = (-none if odd & (_bits(x) < _i(0)) else none) if x == _f(0) else found
    all_or_none = _INF if y > _f(0) else _f(0)
    found = (-all_or_none if odd & (x < _f(0)) else all_or_none) if abs(x) == _INF else found
    limit = _INF if (abs(x) > _f(1)) == (y > _f(0)) else _f(0)
    found = (_f(1) if abs(x) == _f(1) else limit) if abs(y) == _INF else found
    found = found if (x == x) & (y == y) else _NAN
    return _f(1) if (y == _f(0)) | (x == _f(1)) else found


def _of_both(single: Any, double: Callable[..., float]) -> Callable[..., float]:
    """Return the function that compiled code replaces by the one of its precision."""
    if double is math.pow:

        def power(x: float, y: float) -> float:
            return math.pow(x, y)

        @overload(power, strict=False, jit_options=_OPTIONS)
        def of_two(x: Any, y: Any) -> Any:
            if isinstance(x, types.Float) and x.bitwidth == 32:
                return lambda x, y: single(x, np.float32(y))
            return lambda x, y: math.pow(x, y)

        return power

    def function(x: float) -> float:
        return double(x)

    @overload(function, strict=False, jit_options=_OPTIONS)
    def of_one(x: Any) -> Any:
        if isinstance(x, types.Float) and x.bitwidth == 32:
            return lambda x: single(x)
        return lambda x: double(x)

    return function


exp, tanh = _of_both(_exp, math.exp), _of_both(_tanh, math.tanh)
MATH = ModuleType("math")
vars(MATH).update(
    {
        **vars(math),
        "exp": exp, "tanh": tanh, "expm1": _of_both(_expm1, math.expm1),
        "log": _of_both(_log, math.log), "log1p": _of_both(_log1p, math.log1p),
        "sin": _of_both(_sin, math.sin), "cos": _of_both(_cos, math.cos), "tan": _of_both(_tan, math.tan),
        "sinh": _of_both(_sinh, math.sinh), "cosh": _of_both(_cosh, math.cosh),
        "atan": _of_both(_atan, math.atan), "pow": _of_both(_pow, math.pow),
    }
)  # fmt: skip
