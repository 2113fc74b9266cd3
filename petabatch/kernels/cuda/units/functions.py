"""Functions of Python, `math` and numpy in CUDA, for row functions and updates on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import numpy as np

from petabatch.kernels.cuda.units.values import JOINED, Value, cast


def _real(*given: Value) -> str:
    """Return the type in which numba calls a function of real numbers."""
    return "f" if all(one.kind == "f" for one in given) else "d"


def _plain(name: str) -> Callable[..., Value]:
    """Return a function of the C library, which has one name in each precision."""

    def call(*given: Value) -> Value:
        kind = _real(*given)
        arguments = ", ".join(cast(one, kind) for one in given)
        return Value(f"{name}{'f' if kind == 'f' else ''}({arguments})", kind)

    return call


def _whole(name: str) -> Callable[[Value], Value]:
    """Return a rounding function of `math`, whose results are whole numbers."""
    return lambda x: Value(f"((long long){_plain(name)(x).text})", "i")


def _text(text: str, kind: str | None = None) -> Callable[..., Value]:
    """Return a function by its text, of arguments {0}, {1} in the type that all have in common."""

    def call(*given: Value) -> Value:
        common = given[-1].kind
        for one in given:
            common = JOINED[common, one.kind]
        return Value(f"({text.format(*(cast(one, common) for one in given))})", kind or common)

    return call


def _absolute(x: Value) -> Value:
    return _plain("fabs")(x) if x.kind in "fd" else _text("{0} < 0 ? -{0} : {0}")(x)


def _where(condition: Value, a: Value, b: Value) -> Value:
    kind = JOINED[a.kind, b.kind]
    return Value(f"({condition.text} ? {cast(a, kind)} : {cast(b, kind)})", kind)


def _several(pair: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    def call(first: Value, *others: Value) -> Value:
        for one in others:
            first = pair(first, one)
        return first

    return call


_SAME = {
    "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "atan": "arctan", "asin": "arcsin", "acos": "arccos", "atan2": "arctan2", "hypot": "hypot",
    "copysign": "copysign", "fmod": "fmod", "pow": "power", "fabs": "fabs",
}  # fmt: skip
"""Functions of the C library and of `math`, with numpy's names."""
_MINIMUM = _several(_text("{1} < {0} || {1} != {1} ? {1} : {0}"))
_MAXIMUM = _several(_text("{1} > {0} || {1} != {1} ? {1} : {0}"))

FUNCTIONS: dict[Hashable, Callable[..., Value]] = {
    **{getattr(math, name): _plain(name) for name in _SAME},
    **{getattr(np, known): _plain(name) for name, known in _SAME.items()},
    math.erf: _plain("erf"),
    math.erfc: _plain("erfc"),
    math.lgamma: _plain("lgamma"),
    math.gamma: _plain("tgamma"),
    math.floor: _whole("floor"),
    math.ceil: _whole("ceil"),
    math.trunc: _whole("trunc"),
    np.floor: _plain("floor"),
    np.ceil: _plain("ceil"),
    np.trunc: _plain("trunc"),
    math.isnan: _text("isnan({0})", "b"),
    math.isinf: _text("isinf({0})", "b"),
    math.isfinite: _text("isfinite({0})", "b"),
    np.isnan: _text("isnan({0})", "b"),
    np.isfinite: _text("isfinite({0})", "b"),
    abs: _absolute,
    np.abs: _absolute,
    # The first number stays unless another is beyond it: so does a NaN that is first, and no other.
    min: _several(_text("{1} < {0} ? {1} : {0}")),
    max: _several(_text("{1} > {0} ? {1} : {0}")),
    np.minimum: _MINIMUM,  # a NaN at any place
    np.maximum: _MAXIMUM,
    np.clip: lambda x, a, b: _MINIMUM(_MAXIMUM(x, a), b),
    np.square: _text("{0} * {0}"),
    np.sign: _text("{0} > 0 ? 1 : {0} < 0 ? -1 : {0} == 0 ? 0 : {0}"),
    np.where: _where,
}
"""By the function of Python; each returns a call of the given numbers."""
