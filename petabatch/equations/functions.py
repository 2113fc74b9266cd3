"""Functions and operators of equations: as source of a row function, and on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Function(NamedTuple):
    """A function: how often it takes an argument, its source, and the same on arrays."""

    arguments: int
    source: str
    """With {0}, {1} for its arguments, which are names or numbers; `real` makes numbers of the precision."""
    apply: Callable[..., Any]
    """Of an array module and the arguments."""
    condition: bool = False
    """Its value is a condition, not a number."""
    of_conditions: int = 0
    """How many of its arguments, the first ones, are conditions."""
    first: str = ""
    """The source of an intermediate result, {first} in `source`."""


def _unary(name: str, source: str | None = None) -> Function:
    def apply(xp: Any, x: Any) -> Any:
        return getattr(xp, name)(x)

    return Function(1, source or f"math.{name}({{0}})", apply)


def _exprel(xp: Any, x: Any) -> Any:
    safe = xp.where(x == 0, 1, x)
    return xp.where(x == 0, 1, xp.expm1(safe) / safe)


OPERATORS = {
    "+": Function(2, "({0} + {1})", lambda xp, a, b: a + b),
    "-": Function(2, "({0} - {1})", lambda xp, a, b: a - b),
    "*": Function(2, "({0} * {1})", lambda xp, a, b: a * b),
    "/": Function(2, "({0} / {1})", lambda xp, a, b: xp.divide(a, b)),
    "**": Function(2, "math.pow({0}, {1})", lambda xp, a, b: xp.power(a, b)),
    "%": Function(
        2,
        "({first} + {1} if ({first} < 0) & ({1} > 0) | ({first} > 0) & ({1} < 0)"
        " else math.copysign({first}, {1}))",
        lambda xp, a, b: xp.remainder(a, b),
        first="math.fmod({0}, {1})",
    ),
    "negative": Function(1, "(-{0})", lambda xp, a: -a),
    "<": Function(2, "({0} < {1})", lambda xp, a, b: xp.less(a, b), True),
    "<=": Function(2, "({0} <= {1})", lambda xp, a, b: xp.less_equal(a, b), True),
    ">": Function(2, "({0} > {1})", lambda xp, a, b: xp.greater(a, b), True),
    ">=": Function(2, "({0} >= {1})", lambda xp, a, b: xp.greater_equal(a, b), True),
    "==": Function(2, "({0} == {1})", lambda xp, a, b: xp.equal(a, b), True),
    "!=": Function(2, "({0} != {1})", lambda xp, a, b: xp.not_equal(a, b), True),
    "and": Function(2, "({0} & {1})", lambda xp, a, b: xp.logical_and(a, b), True, 2),
    "or": Function(2, "({0} | {1})", lambda xp, a, b: xp.logical_or(a, b), True, 2),
    "not": Function(1, "(not {0})", lambda xp, a: xp.logical_not(a), True, 1),
    "if": Function(3, "({1} if {0} else {2})", lambda xp, c, a, b: xp.where(c, a, b), False, 1),
}
"""Operators, by how they are written; `if` is `a if condition else b`, with the condition first."""

_MIN, _MAX = (f"({{0}} if ({{0}} {sign} {{1}}) | ({{0}} != {{0}}) else {{1}})" for sign in "<>")
"""As of numpy: NaN if one of both is."""
CALLED = {
    "exp": _unary("exp"),
    "expm1": _unary("expm1"),
    "exprel": Function(1, "(math.expm1({0}) / {0} if {0} != 0 else real(1))", _exprel),
    "log": _unary("log"),
    "log1p": _unary("log1p"),
    "sqrt": _unary("sqrt"),
    "sin": _unary("sin"),
    "cos": _unary("cos"),
    "tan": _unary("tan"),
    "sinh": _unary("sinh"),
    "cosh": _unary("cosh"),
    "tanh": _unary("tanh"),
    "arctan": _unary("arctan", "math.atan({0})"),
    "abs": _unary("abs", "abs({0})"),
    "floor": _unary("floor", "_np.floor({0})"),
    "ceil": _unary("ceil", "_np.ceil({0})"),
    "sign": _unary(
        "sign", "(real(1) if {0} > 0 else real(-1) if {0} < 0 else real(0) if {0} == 0 else real({0}))"
    ),
    "int": Function(1, "(real(1) if {0} else real(0))", lambda xp, c: xp.where(c, 1.0, 0.0), False, 1),
    "min": Function(2, _MIN.format("{0}", "{1}"), lambda xp, a, b: xp.minimum(a, b)),
    "max": Function(2, _MAX.format("{0}", "{1}"), lambda xp, a, b: xp.maximum(a, b)),
    "clip": Function(
        3,
        _MIN.format("{first}", "{2}"),
        lambda xp, x, a, b: xp.minimum(xp.maximum(x, a), b),
        first=_MAX.format("{0}", "{1}"),
    ),
}
"""Functions that are called; `exprel(x)` is (exp(x) - 1) / x, 1 at 0; `int` makes a number of a condition."""

FUNCTIONS = {**OPERATORS, **CALLED}
CONSTANTS = {"pi": np.pi}
