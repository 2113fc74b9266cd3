"""How still images are shown: which one, which part of it, and with which pixels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.random import stream
from petabatch.sources.gallery import Gallery
from petabatch.sources.headers import raise_together
from petabatch.sources.pixels import channels, convertible, largest, normalized
from petabatch.spec.model import NonNegative
from petabatch.spec.parts import Source

Order = Literal["sequential", "movie", "random"]

_DRAWS = 100
"""Crops tried until one has the contrast wanted."""


class View(Source):
    """The base of sources of still images: a subclass says where the images are.

    Random choices depend on the seed of the run, the slice and the item alone, so that two sources with the
    same settings show corresponding parts of corresponding images (a stereo pair, an image and its labels).
    """

    crop: Literal["random", "center", "top_left"] = "random"
    """Which part of an image larger than the layer is shown; all random positions are equally likely."""
    offset: tuple[int, int] = (0, 0)
    """Rows and columns by which the crop `center` or `top_left` is moved down and right."""
    order: Order = "sequential"
    """Sequential: slice b of B shows image (item * B + b) modulo their number n (the original's `byImage`).
    Movie: each slice shows one image after the other, slice b from b * floor(n / B) on (`byMovie`), always
    the same part of them. Random: each time any of the images, all equally likely, whatever their size."""
    normalize: Literal["none", "standard", "range"] = "none"
    """Over all pixels and channels shown: as stored, mean 0 and deviation 1, or from 0 to 1. A flat image
    becomes 0."""

    contrast: NonNegative = 0.0
    """Draw a random crop again, up to 100 times, while its pixels' deviation is smaller than this (they range
    from 0 to 1): normalising a nearly flat crop would show nothing but the camera's noise."""

    @abstractmethod
    def gallery(self) -> Gallery:
        """Find the images; raises InputError when they are missing or unreadable."""

    @model_validator(mode="after")
    def _a_movie_keeps_its_crop(self) -> View:
        if self.order == "movie" and self.contrast:
            raise PydanticCustomError(
                "movie_contrast",
                "a movie shows the same part of every image, whatever its contrast",
                {"got": f"contrast = {self.contrast}", "expected": 'contrast = 0 with order = "movie"'},
            )
        return self

    @model_validator(mode="after")
    def _offset_has_an_origin(self) -> View:
        if self.crop == "random" and self.offset != (0, 0):
            raise PydanticCustomError(
                "offset",
                "a random crop cannot have an offset",
                {"got": str(list(self.offset)), "expected": 'crop = "center" or "top_left" with an offset'},
            )
        return self

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return the reader; raises InputError unless every image can fill the layer."""
        gallery = self.gallery()
        alike = len(set(gallery.shapes)) == 1  # then one error says it all
        looked_at = gallery.shapes[:1] if alike else gallery.shapes
        wrong = (self._wrong(gallery.name(i), found, shape) for i, found in enumerate(looked_at))
        raise_together([error for error in wrong if error is not None])
        ny, nx, nf = shape

        def read(slice_: int, item: int) -> np.ndarray:
            rng = stream(seed, "crop", slice_, *(() if self.order == "movie" else (item,)))
            for _ in range(_DRAWS if self.crop == "random" and self.contrast else 1):
                number = self._number(slice_, item, batch, len(gallery.shapes), rng)
                pixels = self._pixels(gallery, number, ny, nx, rng)
                if pixels.std() >= self.contrast:
                    break
            return normalized(channels(pixels, nf), self.normalize).astype(np.float32)

        return read

    def _number(self, slice_: int, item: int, batch: int, count: int, rng: np.random.Generator) -> int:
        """Return which of `count` images is shown."""
        if self.order == "random":
            return int(rng.integers(count))
        turn = item * batch + slice_ if self.order == "sequential" else slice_ * (count // batch) + item
        return turn % count

    def _pixels(
        self, gallery: Gallery, number: int, rows: int, columns: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw a crop of an image; return its pixels `[rows, columns, channels]` from 0 to 1."""
        height, width, _ = gallery.shapes[number]
        y, x = self._corner(height - rows, width - columns, rng)
        name = gallery.name(number)
        stored = gallery.read(number, slice(y, y + rows), slice(x, x + columns))
        pixels: np.ndarray = stored.astype(float) / largest(stored.dtype, name)
        if not np.isfinite(pixels).all():
            raise InputError(
                f"{name}: there are pixels that are not finite\n"
                f"    found:    NaN or infinity in the {rows} rows from {y}, {columns} columns from {x}"
            )
        return pixels

    def _corner(self, rows: int, columns: int, rng: np.random.Generator) -> tuple[int, int]:
        """Return the first row and column shown, when that many are left over."""
        if self.crop == "random":
            return int(rng.integers(rows + 1)), int(rng.integers(columns + 1))
        y, x = (rows // 2, columns // 2) if self.crop == "center" else (0, 0)
        return y + self.offset[0], x + self.offset[1]

    def _wrong(
        self, name: str, found: tuple[int, int, int], wanted: tuple[int, int, int]
    ) -> InputError | None:
        """Return why an image of this shape cannot fill the layer, None if it can."""
        rows, columns = found[0] - wanted[0], found[1] - wanted[1]
        if not convertible(found[2], wanted[2]):
            return InputError(
                f"{name}: the image has another number of channels than the layer\n"
                f"    found:    {found[2]}\n    expected: {wanted[2]}\n"
                f"    hint:     set the last number of the layer's `shape` to {found[2]}"
            )
        if rows < 0 or columns < 0:
            return InputError(
                f"{name}: the image is smaller than the layer\n"
                f"    found:    {found[0]} rows, {found[1]} columns\n"
                f"    expected: at least {wanted[0]} rows, {wanted[1]} columns\n"
                f"    hint:     make the layer smaller, or leave this image out"
            )
        if self.crop == "random":
            return None
        y, x = self._corner(rows, columns, np.random.default_rng(0))
        if not (0 <= y <= rows and 0 <= x <= columns):
            return InputError(
                f"{name}: the offset moves the crop out of the image\n"
                f"    found:    rows {y} to {y + wanted[0] - 1}, columns {x} to {x + wanted[1] - 1}\n"
                f"    expected: inside {found[0]} rows, {found[1]} columns"
            )
        return None
