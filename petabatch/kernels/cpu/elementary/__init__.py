"""Elementary functions of float32 and float64 in row functions, which compilers make vectors of: polynomials.

Each has the bits of no library and no processor: sums are in the order of the code, and multiply-adds are
fused where it says so. Errors are below 2 units in the last place (`tests/kernels/cpu/test_elementary.py`).
Angles above 1e15 give NaN: of float32 neighbours are 6e7 apart there.

`MATH` is `math` with them; row functions are compiled with it.

In float32, polynomials and reductions are those of Moshier's Cephes (`expf.c`, `logf.c`, `sinf.c`, `tanhf.c`,
`atanf.c`); multiples of pi / 2 and of log 2 are taken off in parts (Cody & Waite 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from petabatch.kernels.cpu.elementary import angles, doubles, exponentials, remainders
from petabatch.kernels.cpu.elementary.numbers import OPTIONS


def _of_both(single: Any, double: Any) -> Callable[..., float]:
    """Return the function that compiled code replaces by the one of its precision."""
    if double in (doubles.pow, np.fmod):

        def of_numbers(x: float, y: float) -> float:
            return double(x, y)  # type: ignore[no-any-return]

        @overload(of_numbers, strict=False, jit_options=OPTIONS)
        def of_two(x: Any, y: Any) -> Any:
            if not isinstance(x, types.Float) or x.bitwidth != 32:
                return lambda x, y: double(x, y)
            if isinstance(y, types.Float) and y.bitwidth == 64:  # a number as 2.0, or one that is no float32
                return lambda x, y: (
                    single(x, np.float32(y)) if np.float32(y) == y else np.float32(double(np.float64(x), y))
                )
            return lambda x, y: single(x, np.float32(y))

        return of_numbers

    def function(x: float) -> float:
        return double(x)  # type: ignore[no-any-return]

    @overload(function, strict=False, jit_options=OPTIONS)
    def of_one(x: Any) -> Any:
        if isinstance(x, types.Float) and x.bitwidth == 32:
            return lambda x: single(x)
        return lambda x: double(x)

    return function


exp, log = _of_both(exponentials.exp, doubles.exp), _of_both(exponentials.log, doubles.log)
logistic = _of_both(exponentials.logistic, doubles.logistic)
sin, cos = _of_both(angles.sin, doubles.sin), _of_both(angles.cos, doubles.cos)
MATH = ModuleType("math")
vars(MATH).update(
    {
        **vars(math),
        "exp": exp, "expm1": _of_both(exponentials.expm1, doubles.expm1),
        "tanh": _of_both(exponentials.tanh, doubles.tanh),
        "log": log, "log1p": _of_both(exponentials.log1p, doubles.log1p),
        "sin": sin, "cos": cos,
        "tan": _of_both(angles.tan, doubles.tan),
        "sinh": _of_both(exponentials.sinh, doubles.sinh), "cosh": _of_both(exponentials.cosh, doubles.cosh),
        "atan": _of_both(angles.atan, doubles.atan), "pow": _of_both(exponentials.pow, doubles.pow),
        "fmod": _of_both(remainders.fmod, np.fmod),  # numba has none of `math`
    }
)  # fmt: skip
