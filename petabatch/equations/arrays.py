"""Expressions evaluated on numbers and arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from petabatch.equations.expression import Expression, Name, Number
from petabatch.equations.functions import CALLED, FUNCTIONS


def evaluate(expression: Expression, values: Mapping[str, Any], xp: Any = np, real: Any = None) -> Any:
    """Return the value of an expression; `values` has its names, `xp` is numpy or cupy.

    As in compiled code, both sides of a choice are computed, and division by zero is no error. Numbers that
    are the same in all units are floats, which arrays round to their type, but for times, which are float64.
    `real` is the type of arrays.
    """
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Name):
        return values[expression.name]
    function = FUNCTIONS[expression.function]
    arguments = [evaluate(one, values, xp, real) for one in expression.arguments]
    found = function.apply(xp, *arguments)
    if isinstance(found, np.ndarray) and found.ndim == 0:  # of `where` of numbers
        found = found[()]
    numbers = all(type(one) is float for one in arguments[function.of_conditions :])
    if isinstance(found, np.floating):
        return float(found) if numbers or expression.function in CALLED else found
    if numbers and real is not None and getattr(found, "dtype", bool) not in (bool, real):
        return found.astype(real)  # numbers that each unit chooses from
    return found


def number(expression: Expression, values: Mapping[str, float]) -> float:
    """Return the value of an expression of numbers, in float64: the same on every processor."""
    with np.errstate(all="ignore"):
        known = {name: np.float64(value) for name, value in values.items()}
        return float(evaluate(expression, known, SCALARS))


class _Scalars:
    """Functions of numbers by the C library, under numpy's names; numpy's own depend on the processor."""

    def __getattr__(self, name: str) -> Any:
        return _SCALAR[name] if name in _SCALAR else getattr(np, name)


def _total(function: Callable[..., float]) -> Callable[..., np.float64]:
    """Return a function of `math` without its exceptions: as of arrays, an infinity or NaN."""

    def apply(*given: float) -> np.float64:
        try:
            return np.float64(function(*given))
        except OverflowError:
            return np.float64(math.inf)
        except ValueError:
            return np.float64(math.nan)

    return apply


_SCALAR = {
    **{
        name: _total(getattr(math, name))
        for name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    "arctan": _total(math.atan),
    "power": _total(math.pow),
}
SCALARS: Any = _Scalars()
"""In the place of an array module, for numbers."""
