"""Checks of the arguments of Python functions, whose values no model validates."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from petabatch.errors import ArgumentError, did_you_mean


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
