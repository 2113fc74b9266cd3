"""Checks of the arguments of Python functions, whose values no model validates.

`checked` compares the arguments of a public function with its annotations; the functions below check single
values further.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from petabatch.errors import ArgumentError, did_you_mean, with_article

P = ParamSpec("P")
T = TypeVar("T")


def checked(*but: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: a function raises ArgumentError for an argument that is not of its annotated type.

    It says itself what is wrong with the arguments `but`.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            signature = inspect.signature(function)
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError:
                check_names(function, kwargs)
                return function(*args, **kwargs)  # which says what is missing, or given twice
            check_types(function, {name: value for name, value in given.items() if name not in but})
            return function(*args, **kwargs)

        return called

    return decorate


def check_names(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise TypeError, as Python does, for the first argument of a name that a function does not have."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in given:
        if name not in parameters:
            hint = did_you_mean(name, parameters)
            text = f"{function.__name__}() got an unexpected keyword argument {name!r}"
            raise TypeError(f"{text}: {hint}" if hint else text)


def check_types(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise ArgumentError for the first argument that is not of its annotated type."""
    for name, value in given.items():
        hint = _hints(function).get(name, Any)
        if not _fits(value, hint):
            kinds = _kinds(hint)
            choices = [one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind)]
            named = [one for one in choices if isinstance(one, str)]
            hint_at = did_you_mean(value, named) if isinstance(value, str) and len(named) > 2 else ""
            expected = " or ".join(dict.fromkeys(map(_words, kinds)))
            what = "this is not one of the choices" if choices else "the value has the wrong type"
            raise ArgumentError(name, what, value, expected, hint_at)


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function)


def _kinds(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union."""
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    return any(_is(value, kind) for kind in _kinds(hint))


def _is(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type; numbers of numpy are those of Python."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return isinstance(value, str | int | None) and value in inner
    if origin is bool:
        return _is_bool(value)
    if origin is int:
        return hasattr(value, "__index__") and not _is_bool(value) and getattr(value, "ndim", 0) == 0
    if origin is float:
        number = hasattr(value, "__float__") or hasattr(value, "__index__")
        return number and not _is_bool(value) and getattr(value, "ndim", 0) == 0
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if origin is tuple and inner[-1:] != (...,):
        several = isinstance(value, tuple | list) and len(value) == len(inner)
        return several and all(map(_fits, value, inner))
    if origin in (Sequence, tuple, list):
        several = hasattr(value, "__len__") and hasattr(value, "__iter__") and getattr(value, "ndim", 1) == 1
        return several and not isinstance(value, str | dict) and all(_fits(one, inner[0]) for one in value)
    return origin is Any or not isinstance(origin, type) or isinstance(value, origin)


def _words(kind: Any) -> str:
    """Return a type in words."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return ", ".join(map(repr, inner))
    if origin is tuple and inner[-1:] != (...,):
        return f"{len(inner)} values, each {_words(inner[0])}"
    if origin in (Sequence, tuple, list):
        return f"a list, of {' or '.join(map(_words, _kinds(inner[0])))} each"
    known = {
        bool: "True or False",
        int: "a whole number",
        float: "a number",
        str: "text",
        os.PathLike: "a path",
        Path: "a path",
        type(None): "None",
        Callable: "a function",
        type: "a class",
    }
    return known.get(origin) or with_article(getattr(origin, "__name__", str(origin)))


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """Return the value as an int; raises ArgumentError if it is not a whole number of at least `least`."""
    expected = "a whole number" if least is None else f"a whole number of at least {least}"
    if not _is_bool(value):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if least is None or number >= least:
                return number
            raise ArgumentError(name, "the value is out of range", value, expected)
    raise ArgumentError(name, "the value has the wrong type", value, expected)


def positive(name: str, value: Any) -> float:
    """Return the value as a float; raises ArgumentError if it is not a finite number larger than 0."""
    expected = "a finite number larger than 0"
    if _is_bool(value) or isinstance(value, str | bytes):
        raise ArgumentError(name, "the value has the wrong type", value, expected)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(name, "the value has the wrong type", value, expected) from None
    if not (math.isfinite(number) and number > 0):
        raise ArgumentError(name, "the value is out of range", value, expected)
    return number


def text(name: str, value: Any) -> str:
    """Return the value; raises ArgumentError if it is not text."""
    if not isinstance(value, str):
        raise ArgumentError(name, "the value has the wrong type", value, "text")
    return value


def flag(name: str, value: Any) -> bool:
    """Return the value as a bool; raises ArgumentError if it is neither True nor False."""
    if not _is_bool(value):
        raise ArgumentError(name, "the value has the wrong type", value, "True or False")
    return bool(value)


def choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return the value; raises ArgumentError if it is not one of the choices."""
    if isinstance(value, str) and value in choices:
        return value
    expected = ", ".join(map(repr, choices))
    hint = did_you_mean(value, choices) if isinstance(value, str) else ""
    raise ArgumentError(name, "this is not one of the choices", value, expected, hint)


def path(name: str, value: Any) -> Path:
    """Return the value as a Path; raises ArgumentError if it is neither text nor a path."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ArgumentError(name, "this is not a path", value, "text or a pathlib.Path")
    return Path(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
