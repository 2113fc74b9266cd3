"""Objects of Python as sources: datasets with items, such as those of torch."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from petabatch.arrays import Channels, as_numpy, channels_last, is_array
from petabatch.errors import InputError
from petabatch.sources.cache import ImageCache
from petabatch.sources.gallery import Gallery
from petabatch.sources.pixels import largest
from petabatch.sources.view import View


class Held:
    """An object of Python in a params model; equal only to itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        named = self.value if isinstance(getattr(self.value, "__module__", None), str) else type(self.value)
        named = named if hasattr(named, "__qualname__") else type(named)
        items = f", {len(self.value):,} items" if hasattr(self.value, "__len__") else ""
        return f"in Python: {named.__module__}.{named.__qualname__}{items}"


def held_object(value: Any, info: ValidationInfo) -> Held:
    """Return an object of Python, or the one that is given for its text when a run is resumed."""
    if isinstance(value, str):
        for given in (info.context or {}).get("objects", ()):
            if repr(Held(given)) == value:
                return Held(given)
        raise PydanticCustomError(
            "object_missing",
            "an object of Python cannot be given as text",
            {
                "got": value,
                "expected": "the object itself, in Python",
                "hint": "resume in Python: petabatch.resume(..., objects=[it])",
            },
        )
    return value if isinstance(value, Held) else Held(value)


def _dataset(value: Any, info: ValidationInfo) -> Held:
    found = held_object(value, info)
    if not hasattr(found.value, "__len__") or not hasattr(found.value, "__getitem__"):
        raise PydanticCustomError(
            "no_dataset",
            "this object has no numbered items",
            {
                "got": repr(found),
                "expected": "an object with __len__ and __getitem__",
                "hint": "Iterable(data=...) shows what can only be iterated over"
                if hasattr(found.value, "__iter__")
                else "",
            },
        )
    return found


WRITTEN = PlainSerializer(repr)
SCHEMA = WithJsonSchema({"not": {}, "description": "An object of Python; from Python only."})


class Dataset(View):
    """The items of an object with `__len__` and `__getitem__`, such as a dataset of torch or Hugging Face.

    Each item is an image `[ny, nx]` or `[ny, nx, nf]`, of any library, a tuple that begins with one, or a
    dictionary with one; all have one size. The same number must always give the same item. Items are read
    ahead on another thread, one at a time.
    """

    type: Literal["dataset"] = "dataset"
    data: Annotated[Held, PlainValidator(_dataset), WRITTEN, SCHEMA]
    """The object; in Python only."""
    channels: Channels = "last"
    """Axis of the channels; tensors of torch usually have them `first`."""
    column: str | None = None
    """Name of the image in items that are dictionaries; by default the only one in them."""
    given_as: ClassVar[str] = "data"
    """The name of the object in messages."""

    @property
    def read_ahead(self) -> bool:
        """Items may be computed or read from files."""
        return True

    def gallery(self) -> Gallery:
        """Read the first item; raises InputError if it is not an image."""
        name, count = self.given_as, len(self.data.value)
        if not count:
            raise InputError(f"{name}: this object has no items\n    expected: at least one")
        lock = threading.Lock()

        def item(number: int) -> np.ndarray:
            with lock:
                return self._item(number)

        cached = ImageCache(item)
        shape: tuple[int, int, int] = cached(0).shape

        def read(number: int, rows: slice, columns: slice) -> np.ndarray:
            pixels = cached(number)
            if pixels.shape != shape:
                raise InputError(
                    f"{name}[{number}]: this image has another size than the first\n"
                    f"    found:    {list(pixels.shape)}\n    expected: {list(shape)}"
                )
            return pixels[rows, columns]

        return Gallery([shape] * count, read, f"{name}[{{}}]".format, holders=[(name, count)])

    def _item(self, number: int) -> np.ndarray:
        """Return an item, `[ny, nx, nf]`; raises InputError if it cannot be had or is not an image."""
        name = f"{self.given_as}[{number}]"
        try:
            found = self.data.value[number]
        except Exception as error:
            raise InputError(f"{name}: this item cannot be read: {type(error).__name__}: {error}") from error
        pixels = as_numpy(name, image_of(found, self.column, name), "an image")
        if pixels.ndim not in (2, 3) or 0 in pixels.shape:
            raise InputError(
                f"{name}: this item is not an image\n"
                f"    found:    {type(found).__name__}, {pixels.dtype} {list(pixels.shape)}\n"
                f"    expected: an array [ny, nx] or [ny, nx, nf], or a tuple that begins with one"
            )
        largest(pixels.dtype, name)
        pixels = channels_last(pixels, self.channels)
        return pixels.reshape(*pixels.shape[:2], -1)


def image_of(item: Any, column: str | None, name: str) -> Any:
    """Return the image of an item of a dataset: the item, its first part, or what it has under a name.

    Raises InputError if an item that is a dictionary has no image, or several.
    """
    if not isinstance(item, Mapping):
        return item[0] if isinstance(item, tuple | list) and item else item
    several = [key for key, value in item.items() if _has_rows(value)]
    if column is None and len(several) == 1:
        return item[several[0]]
    if column in item:
        return item[column]
    found = ", ".join(map(str, item))
    raise InputError(
        f"{name}: it is not clear which part of this item is the image\n    found:    {found}\n"
        f"    expected: {'one array' if column is None else column}\n"
        "    hint:     the key column of a source chooses one: column = NAME"
    )


def _has_rows(value: Any) -> bool:
    """Return whether a value is an array of at least two axes, or a list of lists."""
    if is_array(value):
        return np.ndim(value) > 1
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)
