"""Values in a translated row function: numbers with their types, units of arrays, groups of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Untranslated(Exception):
    """A row function has no form as a kernel; the message is the place and the reason."""


class Array(NamedTuple):
    """One of the arrays of units; a thread has one unit of it."""

    text: str


class Group(NamedTuple):
    """Arrays, or numbers, by name or by number."""

    members: Mapping[Any, Any]


class Cast(NamedTuple):
    """A type, called as a function."""

    kind: str


class Size(NamedTuple):
    """The shape of an array of one unit."""


class Element(NamedTuple):
    """A unit of an array, which can be changed."""

    text: str


class Value(NamedTuple):
    """A number: its text, and its type, a key of `TYPES`; "?" where that is not known yet."""

    text: str
    kind: str


TYPES = {"b": "bool", "i": "long long", "f": "float", "d": "double", "?": "double"}
_ORDER = "?bifd"
JOINED = {
    (a, b): "d" if {a, b} == {"i", "f"} else max(a, b, key=_ORDER.index) for a in _ORDER for b in _ORDER
}
"""The type of a variable that has values of both."""


def cast(value: Value, kind: str) -> str:
    """Return a number as one of another type."""
    return value.text if value.kind == kind else f"(({TYPES[kind]}){value.text})"


def common(a: Value, b: Value) -> str:
    """Return the type in which numba computes with both."""
    kind = JOINED[a.kind, b.kind]
    return "d" if {a.kind, b.kind} in ({"i", "f"},) else "i" if kind == "b" else kind


def constant(value: bool | float) -> Value:
    """Return a number that is written in the function."""
    if isinstance(value, bool):
        return Value("true" if value else "false", "b")
    if isinstance(value, int):
        return Value(f"{value}LL", "i")
    if not math.isfinite(value):
        infinite = "(1e308 * 1e308)"  # NVRTC has no <cmath>
        text = f"(0.0 * {infinite})" if math.isnan(value) else infinite
        return Value(f"(-{text})" if value < 0 else text, "d")
    return Value(f"({value.hex()})", "d")
