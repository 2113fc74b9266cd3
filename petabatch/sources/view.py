"""Display of still images: order, crop and normalisation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.logs import log
from petabatch.random import stream
from petabatch.sources.gallery import Gallery
from petabatch.sources.headers import raise_together
from petabatch.sources.orders import AnOrder, Playlist, Sequential
from petabatch.sources.pixels import channels, convertible, largest, normalized
from petabatch.spec.images import ImageStream, Shown
from petabatch.spec.model import NonNegative
from petabatch.spec.parts import Source

_DRAWS = 100
"""Largest number of crops drawn to reach the required contrast."""


class View(Source):
    """The base of sources of still images; a subclass provides the images by `gallery`.

    Random choices depend only on the seed of the run, the slice and the item. Two sources with the same
    settings therefore show corresponding crops of corresponding images (a stereo pair, an image and its
    labels).
    """

    crop: Literal["random", "center", "top_left"] = "random"
    """Part of an image that is shown if it is larger than the layer; random positions are uniformly
    distributed."""
    offset: tuple[int, int] = (0, 0)
    """Displacement of the crops `center` and `top_left`, in rows down and columns right."""
    order: AnOrder = Field(default_factory=Sequential)
    """Order of the images; see the types of order."""
    slices: Literal["own", "same"] = "own"
    """`same`: every slice shows what the slice of a run with `batch = 1` would: the same items and crops."""
    normalize: Literal["none", "standard", "range"] = "none"
    """Normalisation over all pixels and channels shown. `none`: as stored, in [0, 1] for integers.
    `standard`: zero mean and unit standard deviation. `range`: scaled to [0, 1]. Constant images become 0
    unless `none`."""

    contrast: NonNegative = 0.0
    """Minimum contrast of random crops: a crop is drawn again, up to 100 times, while the standard deviation
    of its pixels (in [0, 1]) is smaller than this. Normalising a nearly constant crop would only amplify
    noise."""
    on_bad_item: Literal["error", "skip"] = "error"
    """What happens if an image is missing, damaged or does not fit the layer. `error`: all such files are
    reported before the run; one that turns out to be damaged when it is decoded ends the run. `skip`: the
    next good image in file order is shown in its place; the images of other displays stay the same."""

    @abstractmethod
    def gallery(self) -> Gallery:
        """Return the images; raises InputError if they are missing or cannot be read."""

    @model_validator(mode="after")
    def _moving_images_keep_their_crop(self) -> View:
        if self.order.moving and self.contrast:
            raise PydanticCustomError(
                "movie_contrast",
                "a movie shows the same part of every image, whatever its contrast",
                {
                    "got": f"contrast = {self.contrast}",
                    "expected": f'contrast = 0 with order = "{self.order.type}"',
                },
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

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Views:
        """Return the reader; raises InputError if an image does not fit the layer."""
        gallery = self.gallery()
        bad, errors = self._bad(gallery, shape)
        if self.on_bad_item == "error" or len(bad) == len(gallery.shapes):
            raise_together(errors)
        if bad:
            log.warning(
                "%d of %d images are skipped; the first:\n%s", len(bad), len(gallery.shapes), errors[0]
            )
            gallery, bad = gallery.skipping(bad)
        alone = self.slices == "same"
        playlist = self.order.open(gallery.frames, 1 if alone else batch, seed)
        return Views(self, gallery, playlist, bad, shape, seed)

    @property
    def traced(self) -> bool:
        """It knows which image it shows."""
        return True

    def stream(self, shape: tuple[int, int, int], batch: int, seed: int) -> ImageStream:
        """Return the reader, which also knows what it shows.

        A subclass with an `open` of its own changes what is read, not which images are shown.
        """
        opened = self.open(shape, batch, seed)
        return opened if isinstance(opened, Views) else View.open(self, shape, batch, seed).through(opened)

    def pixels(self, gallery: Gallery, number: int, y: int, x: int, rows: int, columns: int) -> np.ndarray:
        """Return the pixels of a crop, float64 `[rows, columns, channels]`; integers are scaled to [0, 1].

        Raises InputError if some are not finite.
        """
        name = gallery.name(number)
        stored = gallery.read(number, slice(y, y + rows), slice(x, x + columns))
        pixels: np.ndarray = stored.astype(float) / largest(stored.dtype, name)
        if not np.isfinite(pixels).all():
            raise InputError(
                f"{name}: some pixels are not finite\n"
                f"    found:    NaN or infinity in the {rows} rows from {y}, {columns} columns from {x}"
            )
        return pixels

    def corner(self, rows: int, columns: int, rng: np.random.Generator) -> tuple[int, int]:
        """Return the first row and column of the crop of an image larger by `rows` and `columns`."""
        if self.crop == "random":
            return int(rng.integers(rows + 1)), int(rng.integers(columns + 1))
        y, x = (rows // 2, columns // 2) if self.crop == "center" else (0, 0)
        return y + self.offset[0], x + self.offset[1]

    def _bad(self, gallery: Gallery, shape: tuple[int, int, int]) -> tuple[set[int], list[InputError]]:
        """Return the numbers of the images that cannot be shown, and their errors."""
        bad, errors = set(gallery.bad), list(gallery.bad.values())
        if len(set(gallery.shapes)) == 1 and not bad:  # then one error is enough
            error = self._shape_error(gallery.name(0), gallery.shapes[0], shape)
            return (set(), []) if error is None else (set(range(len(gallery.shapes))), [error])
        for number, found in enumerate(gallery.shapes):
            error = None if number in bad else self._shape_error(gallery.name(number), found, shape)
            if error is not None:
                bad.add(number)
                errors += [error] if gallery.item(number)[1] == 0 else []  # one for each film
        return bad, errors

    def _shape_error(
        self, name: str, found: tuple[int, int, int], wanted: tuple[int, int, int]
    ) -> InputError | None:
        """Return the error if an image of this shape does not fit the layer, else None."""
        rows, columns = found[0] - wanted[0], found[1] - wanted[1]
        if not convertible(found[2], wanted[2]):
            return InputError(
                f"{name}: image and layer have different numbers of channels\n"
                f"    found:    {found[2]}, in an image of {list(found)}\n"
                f"    expected: {wanted[2]}, in a layer of {list(wanted)}\n"
                f"    hint:     {_channels_hint(found, wanted)}"
            )
        if rows < 0 or columns < 0:
            return InputError(
                f"{name}: the image is smaller than the layer\n"
                f"    found:    {found[0]} rows, {found[1]} columns\n"
                f"    expected: at least {wanted[0]} rows, {wanted[1]} columns\n"
                f"    hint:     make the layer smaller, or remove this image"
            )
        if self.crop == "random":
            return None
        y, x = self.corner(rows, columns, np.random.default_rng(0))
        if not (0 <= y <= rows and 0 <= x <= columns):
            return InputError(
                f"{name}: the offset moves the crop out of the image\n"
                f"    found:    rows {y} to {y + wanted[0] - 1}, columns {x} to {x + wanted[1] - 1}\n"
                f"    expected: inside {found[0]} rows, {found[1]} columns"
            )
        return None


class Views(ImageStream):
    """The reader of a view: which part of which image each slice shows, and its pixels."""

    def __init__(
        self,
        view: View,
        gallery: Gallery,
        playlist: Playlist,
        bad: set[int],
        shape: tuple[int, int, int],
        seed: int,
    ) -> None:
        self._view, self._gallery, self._playlist = view, gallery, playlist
        self._bad, self._shape, self._seed = bad, shape, seed
        self._decoded: set[int] = set()
        """Images that are known to be good."""
        self.displays = playlist.displays
        self.files, self.forward = gallery.files, bool(gallery.films)
        self._through: Callable[[int, int], np.ndarray] | None = None

    def through(self, read: Callable[[int, int], np.ndarray]) -> Views:
        """Let `read` return the images."""
        self._through = read
        return self

    def __call__(self, slice_: int, display: int) -> np.ndarray:
        """Return what a slice shows, float32 `[ny, nx, nf]`."""
        if self._through is not None:
            return self._through(slice_, display)
        number, y, x = self._place(slice_, display)
        pixels = self._pixels(number, y, x)
        return normalized(channels(pixels, self._shape[2]), self._view.normalize).astype(np.float32)

    def shown(self, slice_: int, display: int) -> Shown:
        """Return the item, its frame and the crop."""
        number, y, x = self._place(slice_, display)
        return Shown(*self._gallery.item(number), (y, x))

    def begins(self, slice_: int, display: int) -> bool:
        """Return whether a film begins, and asks for layers to be reset."""
        return self._playlist.begins(self._own(slice_), display)

    def _own(self, slice_: int) -> int:
        return 0 if self._view.slices == "same" else slice_

    def _place(self, slice_: int, display: int) -> tuple[int, int, int]:
        """Return the number of the image, and the first row and column of its part."""
        view, gallery, own = self._view, self._gallery, self._own(slice_)
        rng = stream(self._seed, "crop", *self._playlist.crop(own, display))
        for _ in range(_DRAWS if view.crop == "random" and view.contrast else 1):
            number = self._good(self._playlist.frame(own, display, rng))
            height, width, _ = gallery.shapes[number]
            y, x = view.corner(height - self._shape[0], width - self._shape[1], rng)
            if not view.contrast or self._pixels(number, y, x).std() >= view.contrast:
                break
        return number, y, x

    def _good(self, number: int) -> int:
        """Return the image, or the next good one where it is skipped."""
        if self._view.on_bad_item == "error" or number in self._decoded:
            return number
        for _ in self._gallery.shapes:
            if number not in self._bad:
                try:
                    self._gallery.read(number, slice(0, 1), slice(0, 1))
                except InputError as error:
                    self._bad.add(number)
                    log.warning("an image is skipped:\n%s", error)
                else:
                    self._decoded.add(number)
                    return number
            number = (number + 1) % len(self._gallery.shapes)
        raise InputError(f"{self._gallery.name(number)}: all images are damaged, this one and all others")

    def _pixels(self, number: int, y: int, x: int) -> np.ndarray:
        return self._view.pixels(self._gallery, number, y, x, *self._shape[:2])


def _channels_hint(found: tuple[int, int, int], wanted: tuple[int, int, int]) -> str:
    first = convertible(found[0], wanted[2]) and found[1] >= wanted[0] and found[2] >= wanted[1]
    if first:
        return "channels come last; numpy.moveaxis(images, -3, -1) moves them there"
    return f"set the last number of the layer's `shape` to {found[2]}"
