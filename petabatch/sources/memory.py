"""In-memory arrays as fields of params models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

_WRITTEN = re.compile(r"in memory: \S+ \[.*\], sha256 ([0-9a-f]{16})")


class InMemory:
    """A read-only view of an array: compared by content, serialised as type, shape and checksum."""

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
        return f"in memory: {self.array.dtype} {list(self.array.shape)}, sha256 {self.digest}"

    @cached_property
    def digest(self) -> str:
        """The checksum of the array's bytes, which is its file name in a run directory."""
        return hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()[:16]


def held(value: Any) -> Iterator[InMemory]:
    """Yield all in-memory arrays of a model, at any depth."""
    if isinstance(value, InMemory):
        yield value
    elif isinstance(value, BaseModel):
        yield from held({name: getattr(value, name) for name in type(value).model_fields})
    elif isinstance(value, dict):
        yield from held(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from held(item)


def _validate(value: Any, info: ValidationInfo) -> InMemory:
    if isinstance(value, InMemory):
        return value
    folder, written = (info.context or {}).get("arrays"), _WRITTEN.fullmatch(str(value))
    if folder is not None and written is not None:
        return InMemory(_load(Path(folder) / f"{written[1]}.npy"))
    if not hasattr(value, "__array__"):
        raise PydanticCustomError(
            "not_an_array",
            "this is not a numpy array",
            {
                "got": repr(value)[:80],
                "expected": "a numpy array, which can be given in Python only",
                "hint": "in Python: numpy.asarray(data); in a params file: give a file instead",
            },
        )
    return InMemory(np.asarray(value))


def _load(path: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise PydanticCustomError(
            "array_gone",
            "an in-memory array of the run cannot be read",
            {"got": str(error).replace("{", "(").replace("}", ")"), "expected": f"the file {path}"},
        ) from error
    return array


Data = Annotated[
    InMemory,
    PlainValidator(_validate),
    PlainSerializer(repr),
    WithJsonSchema({"not": {}, "description": "A numpy array; from Python only."}),
]
