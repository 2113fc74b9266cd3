"""Functions of Python as sources."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from petabatch.arrays import Channels, as_numpy, channels_last
from petabatch.errors import InputError
from petabatch.random import LazyStream
from petabatch.sources.in_python import SCHEMA, WRITTEN, Held, held_object
from petabatch.sources.pixels import largest
from petabatch.sources.transformed import TransformedSource
from petabatch.sources.transforms import Chain, Chance
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.sources.views import DRAWS


def _function(value: Any, info: ValidationInfo) -> Held:
    found = held_object(value, info)
    if not callable(found.value):
        raise PydanticCustomError(
            "no_function",
            "this object cannot be called",
            {"got": repr(found), "expected": "a function of (slice, display)"},
        )
    return found


class Function(TransformedSource):
    """Images that a function of Python returns, `function(slice, display) -> [ny, nx, nf]`.

    `slice` is the global slice number, from 0, and `display` the number of the display, from 1 as everywhere.
    The same arguments must always give the same image. In a run it is called ahead on another thread, one
    call at a time. A `Simulator` calls it when the image is shown, on its own thread, after all slices have
    made the steps before. Without transforms, an image has the shape of the layer. For stacks of frames, what
    a slice is shown is one film.
    """

    type: Literal["function"] = "function"
    call: Annotated[Held, PlainValidator(_function), WRITTEN, SCHEMA]
    """The function; in Python only."""
    channels: Channels = "last"
    """Axis of the channels of its images; tensors of torch usually have them `first`."""

    @property
    def read_ahead(self) -> bool:
        """Calls may take time."""
        return True

    @property
    def live(self) -> bool:
        """A function may look at what a simulator does."""
        return True

    def open(self, shape: Shape, batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return the reader; it raises InputError for what is not an image or does not fit the layer."""
        self.fitted(shape, seed)
        read = reader(self, Calls(self._called, shape), seed)
        read(0, 0)
        return read if self.slices == "own" else lambda slice_, item: read(0, item)

    def _called(self, slice_: int, item: int) -> tuple[np.ndarray, str]:
        """Return what the function returns for an item, and its name."""
        name = f"call({slice_}, {item + 1})"
        try:
            found = self.call.value(slice_, item + 1)
        except Exception as error:
            raise InputError(f"{name}: the function fails: {type(error).__name__}: {error}") from error
        return channels_last(as_numpy(name, found, "an image"), self.channels), name

    def fitted(self, shape: Shape, seed: int) -> Self:
        """Return the source itself; raises InputError if a transform is to be fitted to its images."""
        for index, step in enumerate(self.steps):
            if step.unfitted:
                error = InputError(
                    f"{step.type} cannot be fitted to the images of a function: there is no end of them\n"
                    '    hint:     a source of type "dataset" has a list of images'
                )
                error.key = f"transforms.{index}"
                raise error
        return self


def reader(source: TransformedSource, calls: Calls, seed: int) -> Callable[[int, int], np.ndarray]:
    """Return what reads images one by one, and transforms them as a source says."""
    return _Transformed(calls, source.chain(calls.shape), seed).read if source.steps else calls.read


class Calls:
    """What a function returns for a slice and an item, with a name; checked, one call at a time."""

    def __init__(self, call: Callable[[int, int], tuple[np.ndarray, str]], shape: Shape) -> None:
        self._call, self.shape, self._lock = call, shape, threading.Lock()

    def read(self, slice_: int, item: int) -> np.ndarray:
        """Return an image of the shape of the layer, float32; integers are scaled to [0, 1]."""
        pixels, top, name = self.image(slice_, item)
        if pixels.shape != self.shape:
            turned = np.moveaxis(pixels, 0, -1).shape if pixels.ndim == 3 else ()
            hint = '\n    hint:     channels = "first", if they are' if turned == self.shape else ""
            raise InputError(
                f"{name}: image and layer differ in shape\n"
                f"    found:    {list(pixels.shape)}\n    expected: {list(self.shape)}{hint}"
            )
        scaled = pixels.astype(np.float32) / np.float32(top)
        return _finite(scaled, name)

    def image(self, slice_: int, item: int) -> tuple[np.ndarray, float, str]:
        """Return an image as it is, the number in it that means 1, and its name."""
        with self._lock:
            pixels, name = self._call(slice_, item)
        return pixels, largest(pixels.dtype, name), name


class _Transformed:
    """What transforms make of the images of a function."""

    def __init__(self, calls: Calls, chain: Chain, seed: int) -> None:
        self._calls, self._chain, self._seed = calls, chain, seed

    def read(self, slice_: int, item: int) -> np.ndarray:
        """Return what a slice shows, float32."""
        chain, key = self._chain, (slice_, item)

        def frame(age: int) -> Picture:
            return self._frame(slice_, max(0, item - age))

        rng, first = LazyStream(self._seed, "crop", *key), frame(0)
        for _ in range(DRAWS if chain.contrast else 1):
            chance = Chance(self._seed, key, key, rng)
            cropped = chain.crop(first, chance, frame)
            if not chain.contrast or cropped.pixels.std() >= chain.contrast:
                break
        return chain.finish(cropped, chance, frame).pixels.astype(np.float32)

    def _frame(self, slice_: int, item: int) -> Picture:
        """Return an image after the first transforms; raises InputError if it does not fit the layer."""
        pixels, top, name = self._calls.image(slice_, item)
        if pixels.ndim != 3 or 0 in pixels.shape:
            raise InputError(
                f"{name}: this is not an image\n    found:    {pixels.dtype} {list(pixels.shape)}\n"
                f"    expected: an array [ny, nx, nf]"
            )
        ny, nx, nf = pixels.shape
        if (error := self._chain.check((ny, nx, nf))) is not None:
            located = InputError(f"{name}: {error}")
            located.key = error.key
            raise located
        scaled = _finite(pixels.astype(float) / top, name)
        return self._chain.begin(Picture((ny, nx, nf), lambda rows, columns: scaled[rows, columns]))


def _finite(pixels: np.ndarray, name: str) -> np.ndarray:
    if not np.isfinite(pixels).all():
        raise InputError(f"{name}: some pixels are not finite")
    return pixels
