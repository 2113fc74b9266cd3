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
from numba import types
from numba.extending import overload

from petabatch.kernels.cpu.elementary import angles, exponentials, remainders
from petabatch.kernels.cpu.elementary.numbers import OPTIONS


def _of_both(single: Any, double: Callable[..., float]) -> Callable[..., float]:
    """Return the function that compiled code replaces by the one of its precision."""
    if double in (math.pow, np.fmod):

        def of_numbers(x: float, y: float) -> float:
            return double(x, y)

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
        return double(x)

    @overload(function, strict=False, jit_options=OPTIONS)
    def of_one(x: Any) -> Any:
        if isinstance(x, types.Float) and x.bitwidth == 32:
            return lambda x: single(x)
        return lambda x: double(x)

    return function


exp = _of_both(exponentials.exp, math.exp)
MATH = ModuleType("math")
vars(MATH).update(
    {
        **vars(math),
        "exp": exp, "expm1": _of_both(exponentials.expm1, math.expm1),
        "tanh": _of_both(exponentials.tanh, math.tanh),
        "log": _of_both(exponentials.log, math.log), "log1p": _of_both(exponentials.log1p, math.log1p),
        "sin": _of_both(angles.sin, math.sin), "cos": _of_both(angles.cos, math.cos),
        "tan": _of_both(angles.tan, math.tan),
        "sinh": _of_both(exponentials.sinh, math.sinh), "cosh": _of_both(exponentials.cosh, math.cosh),
        "atan": _of_both(angles.atan, math.atan), "pow": _of_both(exponentials.pow, math.pow),
        "fmod": _of_both(remainders.fmod, np.fmod),  # numba has none of `math`
    }
)  # fmt: skip
