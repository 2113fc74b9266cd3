"""Sources that can only be iterated over: loaders of torch, generators, streams."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from inspect import isgeneratorfunction
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from petabatch.arrays import Channels, as_numpy, channels_last
from petabatch.errors import InputError
from petabatch.sources.function import Calls, reader
from petabatch.sources.in_python import SCHEMA, WRITTEN, Held, image_of
from petabatch.sources.transformed import TransformedSource
from petabatch.sources.transforms.picture import Shape


class Iterated(Held):
    """An iterable, with the place that has been reached in it: all that read it are at one place."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.lock = threading.Lock()
        self._again = not hasattr(value, "__next__")  # as loaders and lists, but not generators
        self._images: Iterator[np.ndarray] | None = None
        self._kept: dict[int, np.ndarray] = {}
        """Images that a slice may still show, by number."""
        self._next = 0
        self._reached: dict[int, int] = {}
        """The item that each slice has reached."""

    def image(self, slice_: int, item: int, batch: int, begin: Callable[[Any], Iterator[np.ndarray]]) -> Any:
        """Return image `item * batch + slice_`; `begin` iterates over the images."""
        number = item * batch + slice_
        gone = number < self._next and number not in self._kept
        if self._images is None or (item == 0 and gone and self._again):  # in each run
            self._images, self._next, self._kept, self._reached = begin(self.value), 0, {}, {}
        self._reached[slice_] = max(item, self._reached.get(slice_, 0))
        while self._next <= number:
            found = next(self._images, None)
            if found is None and self._again and self._next:
                self._images = begin(self.value)
                found = next(self._images, None)
            if found is None:
                raise InputError(
                    f"data: there are no more images\n    found:    {self._next:,}\n"
                    f"    expected: one for each slice and display, and so at least {number + 1:,}"
                )
            self._kept[self._next] = found
            self._next += 1
        if number not in self._kept:
            raise InputError(
                f"data: image {number} has been read already, and an iterable is read once\n"
                "    hint:     what has numbered items, as a Dataset or an array, can be shown again"
            )
        image = self._kept[number]
        oldest = min(self._reached.values()) - 1
        self._kept = {kept: image for kept, image in self._kept.items() if kept // batch >= oldest}
        return image


def _iterated(value: Any, info: ValidationInfo) -> Iterated:
    if isinstance(value, Iterated):
        return value
    if isinstance(value, str) and (info.context or {}):
        raise PydanticCustomError(
            "read_once",
            "this run cannot be resumed: it shows an iterable, which is read once",
            {"got": value, "expected": "a source whose items are numbered, such as a Dataset or an array"},
        )
    if not hasattr(value, "__iter__") or isinstance(value, str | bytes | dict):
        raise PydanticCustomError(
            "no_iterable",
            "this is not an iterable of images",
            {
                "got": repr(value)[:80],
                "expected": "an object to iterate over, such as a DataLoader of torch or a generator",
                "hint": f"call it: data = {value.__name__}()" if isgeneratorfunction(value) else "",
            },
        )
    return Iterated(value)


class Iterable(TransformedSource):
    """The images that an iterable yields, one after the other, such as those of a `DataLoader` of torch.

    Slice b of a batch of B shows image d * B + b in display d + 1. An iterable yields images `[ny, nx]` or
    `[ny, nx, nf]`, or batches of them `[n, ny, nx, nf]`, alone, first in a tuple, or in a dictionary. It is
    read once, when an image is shown: such a run cannot be resumed, nor a simulator go back. One that can be
    iterated over again begins again at its end, and in each run; others end the run. All ranks must iterate
    over the same images. Without transforms, an image has the shape of the layer.
    """

    type: Literal["iterable"] = "iterable"
    data: Annotated[Iterated, PlainValidator(_iterated), WRITTEN, SCHEMA]
    """The iterable; in Python only."""
    channels: Channels = "last"
    """Axis of the channels; tensors of torch usually have them `first`."""
    column: str | None = None
    """Name of the images where they are in dictionaries; by default the only array in them."""

    @property
    def live(self) -> bool:
        """It is read when an image is shown."""
        return True

    @property
    def once(self) -> bool:
        """Whatever is read is gone."""
        return True

    def open(self, shape: Shape, batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return the reader; it raises InputError for what is not an image or does not fit the layer."""
        own = self.slices == "own"

        def call(slice_: int, item: int) -> tuple[np.ndarray, str]:
            with self.data.lock:
                found = self.data.image(slice_, item, batch if own else 1, self.images)
            return found, f"data, image {item * batch + slice_ if own else item}"

        read = reader(self, Calls(call, shape), seed)
        return read if own else lambda slice_, item: read(0, item)

    def images(self, given: Any) -> Iterator[np.ndarray]:
        """Yield the images one by one, `[ny, nx, nf]`."""
        for number, found in enumerate(_errors_of(given)):
            name = f"data, item {number}"
            images = channels_last(
                as_numpy(name, image_of(found, self.column, name), "images"), self.channels
            )
            if images.ndim not in (2, 3, 4):
                raise InputError(
                    f"{name}: this is neither an image nor a batch of images\n"
                    f"    found:    {images.dtype} {list(images.shape)}\n"
                    "    expected: [ny, nx], [ny, nx, nf] or [n, ny, nx, nf]"
                )
            yield from images if images.ndim == 4 else [images.reshape(*images.shape[:2], -1)]


def _errors_of(given: Any) -> Iterator[Any]:
    """Iterate; raise InputError for the errors of the iterable."""
    iterator = iter(given)
    while True:
        try:
            found = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise InputError(f"data: the iterable fails: {type(error).__name__}: {error}") from error
        yield found
