"""Sources of images, and layers that show them."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from petabatch.arrays import is_array
from petabatch.spec.images import ImageStream
from petabatch.spec.model import Part
from petabatch.spec.schedule import Every


class ImageLayer(Protocol):
    """A layer that shows images; see `layers/input.py`."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, features."""

    @property
    def source(self) -> Source:
        """Where the images come from."""

    @property
    def every(self) -> Every:
        """How long one image is shown."""

    @property
    def offset(self) -> int:
        """Steps by which images change later."""

    @property
    def border(self) -> str | float:
        """What connections see beyond its edge."""

    def item(self, step: int, display: int) -> int | None:
        """Return the number of the item to be read before `step`, None when the last one stays."""

    def shown(self, step: int, display: int) -> int:
        """Return the number of the item that is seen at the end of `step`."""

    def next_change(self, step: int, display: int) -> int | None:
        """Return the first step after `step` that begins with a new item; None is never."""


class Source(Part):
    """The images of an input layer."""

    kind: ClassVar[str] = "source"
    type: str

    @classmethod
    def hint(cls, value: Any) -> str:
        """Return the source of what is likely meant: files, an array, a function or other objects."""
        if found := super().hint(value):
            return found
        if isinstance(value, str | os.PathLike):
            return f'files of images are {{ type = "images", files = "{os.fspath(value)}" }}'
        if is_array(value):
            return "an array is ImageArray(data=...)"
        if callable(value):
            return "a function is Function(call=...)"
        if hasattr(value, "__iter__"):
            return "an object with items is Dataset(data=...), another iterable Iterable(data=...)"
        return ""

    def paths(self) -> Sequence[str]:
        """Return the input files, in order; a resumed run checks that they have not changed."""
        return ()

    @abstractmethod
    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return `read(slice, item) -> float32 [ny, nx, nf]`, a thread-safe, pure function of its arguments.

        `slice` is the global slice number, `item` the number of the display, from 0. The data is opened and
        checked once, in this method.
        Raises InputError if the data is missing, unreadable, or does not fit the layer.
        """

    @property
    def read_ahead(self) -> bool:
        """Whether images are read ahead of the steps on other threads, as those of files are."""
        return type(self).paths is not Source.paths

    @property
    def live(self) -> bool:
        """Whether a `Simulator` asks for an image when it is shown, on its own thread, and not before."""
        return False

    @property
    def once(self) -> bool:
        """Whether its images are gone when they have been read, so that a run cannot be resumed."""
        return False

    @property
    def alike(self) -> bool:
        """Whether all slices are shown the same."""
        return False

    @property
    def traced(self) -> bool:
        """Whether `stream` knows which item it shows, so that the run records it."""
        return False

    @property
    def resets(self) -> bool:
        """Whether the layers of a slice are reset where it begins a film."""
        return False

    @property
    def steps(self) -> Sequence[Any]:
        """The transforms of its images, in order: see `petabatch.sources.transforms`."""
        return ()

    @property
    def unfitted(self) -> bool:
        """Whether something is to be fitted to its images before the run."""
        return False

    @property
    def fitted_by_chance(self) -> bool:
        """Whether what is fitted depends on the seed of the run."""
        return self.unfitted

    def fitted(self, shape: tuple[int, int, int], seed: int) -> Source:
        """Return the source with what is fitted to its images; raises InputError as `open` does."""
        return self

    def fitted_as(self, other: Source) -> Source:
        """Return the source with what `other` has fitted to its images, where something is missing."""
        return self

    def nbytes(self, shape: tuple[int, int, int]) -> int:
        """Return the bytes that reading images for a layer of this shape keeps in memory, at most."""
        return 0

    def nbytes_of_rows(self, shape: tuple[int, int, int]) -> int:
        """Return the bytes that reading some rows of an image of this shape takes beside these, at most.

        By default the whole image is read, also in float64.
        """
        return math.prod(shape) * (4 + 8)

    def stream(self, shape: tuple[int, int, int], batch: int, seed: int) -> ImageStream:
        """Return what `open` returns, as a stream; see `petabatch.spec.images`."""
        return ImageStream(self.open(shape, batch, seed))
