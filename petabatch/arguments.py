"""Checks of the arguments of Python functions, whose values no model validates."""

from __future__ import annotations

import math
import operator
from typing import Any

from petabatch.errors import ArgumentError


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


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
