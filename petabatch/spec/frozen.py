"""Named tables that cannot be changed, as the models they belong to."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from pydantic import AfterValidator

from petabatch.errors import Problem, TableError

T = TypeVar("T")


class FrozenDict(dict[str, T]):
    """A dictionary that raises TableError when it is changed."""

    def _refuse(self, *values: Any, **keys: Any) -> NoReturn:
        found = repr(values[0])[:80] if values else ""
        hint = (
            "make another network: petabatch.Network(**{**dict(network), 'layers': {**network.layers, ...}})"
        )
        raise TableError([Problem("", "the tables of a network cannot be changed", found, hint=hint)])

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[T]], tuple[dict[str, T]]]:
        """Copy and unpickle it from a dictionary, without changing it item by item."""
        return type(self), (dict(self),)


FROZEN = AfterValidator(FrozenDict)
"""Annotation of fields that are dictionaries."""
