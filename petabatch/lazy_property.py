"""Properties that are computed when they are first asked for, without a lock.

`functools.cached_property` of Python 3.11 has one for all objects of a class: ranks that are threads of one
process, which meet in what such a property computes, would wait for each other forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class lazy_property(Generic[T]):
    """Decorator of such a property; its object must have a `__dict__`."""

    def __init__(self, compute: Callable[..., T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember the name, under which the object keeps the value."""
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        """Return the value; computed once for each object."""
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
