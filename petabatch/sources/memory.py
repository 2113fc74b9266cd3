"""Arrays handed over in Python, as a field of a frozen model."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError


class InMemory:
    """A read-only view of an array: compared by content, written out as shape, type and checksum."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = np.asarray(array).view()
        self.array.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InMemory):
            return NotImplemented
        a, b = self.array, other.array
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")

    def __hash__(self) -> int:
        return hash((self.array.shape, self.array.dtype.str))

    def __repr__(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()[:16]
        return f"in memory: {self.array.dtype} {list(self.array.shape)}, sha256 {digest}"


def _hold(value: Any) -> InMemory:
    if isinstance(value, InMemory):
        return value
    if not hasattr(value, "__array__"):
        raise PydanticCustomError(
            "not_an_array",
            "data in memory can be given in Python only",
            {"got": repr(value)[:80], "expected": "a numpy array", "hint": "name a file instead"},
        )
    return InMemory(np.asarray(value))


Data = Annotated[
    InMemory,
    PlainValidator(_hold),
    PlainSerializer(repr),
    WithJsonSchema({"not": {}, "description": "A numpy array; from Python only."}),
]
