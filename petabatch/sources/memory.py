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

from petabatch.arrays import as_numpy
from petabatch.errors import ArgumentError

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


def held_array(value: Any, info: ValidationInfo) -> InMemory:
    """Return an array, or the one that stands in the params of a run."""
    if isinstance(value, InMemory):
        return value
    folder, written = (info.context or {}).get("arrays"), _written(value)
    if folder is not None and written is not None:
        return InMemory(_load(Path(folder) / f"{written[1]}.npy"))
    return InMemory(_array(value))


def _validate_several(value: Any, info: ValidationInfo) -> InMemory | tuple[InMemory, ...]:
    """Return one array of images, or several that differ in shape."""
    if not isinstance(value, list | tuple) or not value:
        return held_array(value, info)
    if all(isinstance(one, InMemory) or _written(one) for one in value):
        return tuple(held_array(one, info) for one in value)
    arrays = [_array(one) for one in value]
    if len({(array.shape, array.dtype) for array in arrays}) == 1:
        return InMemory(np.stack(arrays))
    return tuple(map(InMemory, arrays))


def _array(value: Any) -> np.ndarray:
    try:
        return as_numpy("data", value, "an array of numbers, in Python")
    except ArgumentError as error:
        raise refused(error) from None


def refused(error: ArgumentError) -> PydanticCustomError:
    """Return what is wrong with an argument as an error of a model."""
    found = error.problem
    context = {"got": found.found, "expected": found.expected, "hint": found.hint}
    return PydanticCustomError("not_an_array", found.message.replace("{", "(").replace("}", ")"), context)


def _written(value: Any) -> re.Match[str] | None:
    """Return the match of the placeholder of an array in the params of a run, None for other text."""
    return _WRITTEN.fullmatch(value) if isinstance(value, str) else None


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


def _text(value: InMemory | tuple[InMemory, ...]) -> str | list[str]:
    return repr(value) if isinstance(value, InMemory) else list(map(repr, value))


_SCHEMA = WithJsonSchema({"not": {}, "description": "An array; from Python only."})
Data = Annotated[InMemory, PlainValidator(held_array), PlainSerializer(_text), _SCHEMA]
"""An array of any library."""
Several = Annotated[
    InMemory | tuple[InMemory, ...], PlainValidator(_validate_several), PlainSerializer(_text), _SCHEMA
]
"""The same, or a list of arrays that differ in shape."""
