"""In-memory arrays as fields of params models."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from petabatch.arrays import as_numpy
from petabatch.errors import ArgumentError
from petabatch.spec.memory import InMemory, stands_for_array, stored


def held_array(value: Any, info: ValidationInfo) -> InMemory:
    """Return an array, or the one that stands in the params of a run."""
    if isinstance(value, InMemory):
        return value
    found = stored(value, (info.context or {}).get("arrays"))
    return InMemory(_array(value)) if found is None else InMemory(found)


def _validate_several(value: Any, info: ValidationInfo) -> InMemory | tuple[InMemory, ...]:
    """Return one array of images, or several that differ in shape."""
    if not isinstance(value, list | tuple) or not value:
        return held_array(value, info)
    if all(isinstance(one, InMemory) or stands_for_array(one) for one in value):
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


def _text(value: InMemory | tuple[InMemory, ...]) -> str | list[str]:
    return repr(value) if isinstance(value, InMemory) else list(map(repr, value))


_SCHEMA = WithJsonSchema({"not": {}, "description": "An array; from Python only."})
Data = Annotated[InMemory, PlainValidator(held_array), PlainSerializer(_text), _SCHEMA]
"""An array of any library."""
Several = Annotated[
    InMemory | tuple[InMemory, ...], PlainValidator(_validate_several), PlainSerializer(_text), _SCHEMA
]
"""The same, or a list of arrays that differ in shape."""
