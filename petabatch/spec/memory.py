"""In-memory arrays in params models, and the text that stands for them in the params of a run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from pydantic_core import PydanticCustomError

_WRITTEN = re.compile(r"in memory: \S+ \[.*\], sha256 [0-9a-f]{16}")


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
    elif isinstance(value, np.ndarray):  # of a plug-in
        yield InMemory(value)
    elif isinstance(value, BaseModel):
        yield from held({name: getattr(value, name) for name in type(value).model_fields})
    elif isinstance(value, dict):
        yield from held(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from held(item)


def stands_for_array(value: Any) -> bool:
    """Return whether a value is the text of an array in the params of a run."""
    return isinstance(value, str) and _WRITTEN.fullmatch(value) is not None


def stored(value: Any, folder: Path | None) -> np.ndarray | None:
    """Return the array in `folder` that a text of the params of a run stands for; None for other values."""
    if folder is None or not stands_for_array(value):
        return None
    path = folder / f"{value.rpartition(' ')[2]}.npy"
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise PydanticCustomError(
            "array_gone",
            "an in-memory array of the run cannot be read",
            {"got": str(error).replace("{", "(").replace("}", ")"), "expected": f"the file {path}"},
        ) from error
    return array
