"""Frozen dataclasses with other values of some fields."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def changed(one: T, **values: Any) -> T:
    """Return what `dataclasses.replace` does, in a fifth of the time: of a class without `__post_init__`."""
    known: dict[str, Any] = vars(one)
    found = object.__new__(type(one))
    vars(found).update({name: known[name] for name in _fields(type(one))}, **values)
    return found


@cache
def _fields(kind: type) -> tuple[str, ...]:
    names: dict[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return tuple(names)
