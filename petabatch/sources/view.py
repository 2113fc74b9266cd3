"""Display of still images and films: which one, and its transforms."""

from __future__ import annotations

import threading
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.logs import log
from petabatch.random import stream
from petabatch.sources.gallery import Gallery
from petabatch.sources.headers import raise_together
from petabatch.sources.orders import AnOrder, Playlist, Sequential
from petabatch.sources.pixels import largest
from petabatch.sources.transformed import KEPT_BYTES, TransformedSource
from petabatch.sources.transforms import Chain, Chance, Crop, Transform
from petabatch.sources.transforms.anchors import Position
from petabatch.sources.transforms.picture import Picture
from petabatch.spec.images import ImageStream, Shown
from petabatch.spec.model import NonNegative

DRAWS = 100
"""Largest number of crops drawn to reach the required contrast."""


class View(TransformedSource):
    """The base of sources of still images; a subclass provides the images by `gallery`.

    Random choices depend only on the seed of the run, the slice and the item. Two sources with the same
    settings therefore show corresponding crops of corresponding images (a stereo pair, an image and its
    labels).
    """

    in_short: ClassVar[tuple[str, ...]] = ("crop", "offset", "contrast", "normalize")
    crop: Position = "random"
    """Part of an image that is shown if it is larger than the layer: short for a transform `crop` with this
    position. Not together with `transforms`, as `offset` and `contrast`."""
    offset: tuple[int, int] = (0, 0)
    """Displacement of a crop that is not random, in rows down and columns right."""
    contrast: NonNegative = 0.0
    """Minimum contrast of random crops: a crop is drawn again, up to 100 times, while the standard deviation
    of its pixels (in [0, 1]) is smaller than this. Normalising a nearly constant crop would only amplify
    noise."""
    order: AnOrder = Field(default_factory=Sequential)
    """Order of the images; see the types of order."""
    on_bad_item: Literal["error", "skip"] = "error"
    """What happens if an image is missing, damaged or does not fit the layer. `error`: all such files are
    reported before the run; one that turns out to be damaged when it is decoded ends the run. `skip`: the
    next good image in file order is shown in its place; the images of other displays stay the same."""

    @abstractmethod
    def gallery(self) -> Gallery:
        """Return the images; raises InputError if they are missing or cannot be read."""

    @model_validator(mode="after")
    def _offset_has_an_origin(self) -> View:
        if self.crop == "random" and self.offset != (0, 0):
            raise PydanticCustomError(
                "offset",
                "a random crop cannot have an offset",
                {"got": str(list(self.offset)), "expected": 'crop = "center" or "top_left" with an offset'},
            )
        return self

    @model_validator(mode="after")
    def _moving_images_keep_their_crop(self) -> View:
        contrast = max(self.contrast, *(step.least_contrast for step in self.steps))
        if self.order.moving and contrast:
            raise PydanticCustomError(
                "movie_contrast",
                "a movie shows the same part of every image, whatever its contrast",
                {
                    "got": f"contrast = {contrast}",
                    "expected": f'contrast = 0 with order = "{self.order.type}"',
                },
            )
        return self

    @property
    def short(self) -> tuple[Transform, ...]:
        """The crop and the normalisation that are given in short."""
        contrast = self.contrast if self.crop == "random" else 0.0
        return Crop(position=self.crop, offset=self.offset, contrast=contrast), *super().short

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Views:
        """Return the reader; raises InputError if an image does not fit the layer."""
        gallery, chain, bad = self._usable(shape)
        slices = 1 if self.slices == "same" else batch
        playlist = self.order.open(gallery.frames, slices, seed)
        views = Views(self, gallery, playlist, bad, chain, seed)
        views.note = gallery.expect(views, slices if self.order.apart else 1)
        return views

    def _usable(self, shape: tuple[int, int, int]) -> tuple[Gallery, Chain, set[int]]:
        """Return images, transforms, and the numbers of the images that cannot be shown.

        Raises InputError if an image does not fit the layer, unless it is skipped.
        """
        gallery, chain = self.gallery(), self.chain(shape)
        if chain.stacks and not (gallery.films or self.order.moving):
            error = InputError(
                "the images are not frames of a film\n    found:    single images\n"
                '    expected: a video, or images shown as one, by order = "by_movie"'
            )
            error.key = "transforms"
            raise error
        bad, errors = self._bad(gallery, chain)
        if self.on_bad_item == "error" or len(bad) == len(gallery.shapes):
            raise_together(errors)
        if bad:
            log.warning(
                "%d of %d images are skipped; the first:\n%s", len(bad), len(gallery.shapes), errors[0]
            )
            gallery, bad = gallery.skipping(bad)
        return gallery, chain, bad

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

    @property
    def fitted_by_chance(self) -> bool:
        """Whether a transform before one that is to be fitted is random."""
        last = max((at for at, step in enumerate(self.steps) if step.unfitted), default=0)
        return any(step.random for step in self.steps[:last])

    def fitted(self, shape: tuple[int, int, int], seed: int) -> View:
        """Return the source with its transforms fitted to its images."""
        if not self.unfitted:
            return self
        gallery, chain, bad = self._usable(shape)
        playlist = Sequential().open(gallery.frames, 1, seed)  # in whatever order they are shown
        return self.with_steps(Views(self, gallery, playlist, bad, chain, seed).fitted())

    def _bad(self, gallery: Gallery, chain: Chain) -> tuple[set[int], list[InputError]]:
        """Return the numbers of the images that cannot be shown, and their errors."""
        bad, errors = set(gallery.bad), list(dict.fromkeys(gallery.bad.values()))
        if len(set(gallery.shapes)) == 1 and not bad:  # then one error is enough
            error = _misfit(gallery, 0, chain)
            return (set(), []) if error is None else (set(range(len(gallery.shapes))), [error])
        if (error := _misfit_of_all(gallery, chain)) is not None:
            return set(range(len(gallery.shapes))), [*errors, error]
        for number in range(len(gallery.shapes)):
            error = None if number in bad else _misfit(gallery, number, chain)
            if error is not None:
                bad.add(number)
                errors += [error] if gallery.item(number)[1] == 0 else []  # one for each film
        return bad, errors


def _misfit(gallery: Gallery, number: int, chain: Chain) -> InputError | None:
    """Return the error if an image does not fit the layer, else None."""
    error = chain.check(gallery.shapes[number])
    if error is None:
        return None
    stack, channels = gallery.stack or (), chain.layer[2]
    single = len(stack) == 3 and channels > 1 and stack[2] == channels
    note = "\n    note:     is the array a single image? images[None] is a stack of one" if single else ""
    named = InputError(f"{gallery.name(number)}: {error}{note}")
    named.key = error.key
    return named


def _misfit_of_all(gallery: Gallery, chain: Chain) -> InputError | None:
    """Return the error if the same transform is wrong for all images that are not bad, else None."""
    good = [number for number in range(len(gallery.shapes)) if number not in gallery.bad]
    errors = [chain.check(shape) for shape in {gallery.shapes[number] for number in good}]
    what = {(error.key, str(error).partition("\n")[0]) for error in errors if error is not None}
    if None in errors or len(what) != 1 or not next(iter(what))[0]:
        return None
    named = _misfit(gallery, good[0], chain)
    assert named is not None
    together = InputError(f"{named}\n    note:     so it is with all {len(good):,} images")
    together.key = named.key
    return together


class Views(ImageStream):
    """The reader of a view: which part of which image each slice shows, and its pixels."""

    def __init__(
        self, view: View, gallery: Gallery, playlist: Playlist, bad: set[int], chain: Chain, seed: int
    ) -> None:
        self._view, self._gallery, self._playlist = view, gallery, playlist
        self._seed, self._steps = seed, list(view.steps)
        numbers = range(len(gallery.shapes))
        self._usable: Sequence[int] = [n for n in numbers if n not in bad] if bad else numbers
        """Images that were not bad when they were opened."""
        self._bad, self._decoded = set[int](), set[int]()
        """Images that have turned out to be bad when they were decoded, or to be good."""
        self.displays = playlist.displays
        self.files, self.forward = gallery.files, bool(gallery.films)
        self._through: Callable[[int, int], np.ndarray] | None = None
        self._fitting, self._fitted = threading.Lock(), not view.unfitted
        self._set(chain)

    def _set(self, chain: Chain) -> None:
        # Nothing here may refer to this reader: files are closed when it is let go of, not by chance later.
        begin: Callable[[int], Picture] = partial(_begin, self._gallery, chain)
        if chain.kept:
            biggest = max(map(chain.kept_bytes, {self._gallery.shapes[number] for number in self._usable}))
            begin = lru_cache(max(1, KEPT_BYTES // biggest))(begin)
        self._chain, self._at_start = chain, begin

    def through(self, read: Callable[[int, int], np.ndarray]) -> Views:
        """Let `read` return the images."""
        self._through = read
        return self

    def __call__(self, slice_: int, display: int) -> np.ndarray:
        """Return what a slice shows, float32 `[ny, nx, nf]`."""
        if self._through is not None:
            return self._through(slice_, display)
        return self._picture(slice_, display)[1].pixels.astype(np.float32)

    def shown(self, slice_: int, display: int, margin: tuple[int, int] = (0, 0)) -> Shown:
        """Return the item, its frame and the crop, without a margin of rows and columns at each edge."""
        number, picture = self._picture(slice_, display)
        (y, x), (ny, nx, _) = margin, picture.shape
        return Shown(*self._gallery.item(number), picture.part(y, x, ny - 2 * y, nx - 2 * x).corner)

    def begins(self, slice_: int, display: int) -> bool:
        """Return whether a film begins, and asks for layers to be reset."""
        return self._playlist.begins(self._own(slice_), display)

    def fitted(self) -> Sequence[Transform]:
        """Fit the transforms that need it to the images, once, and return all transforms."""
        with self._fitting:
            for index, step in enumerate(() if self._fitted else self._steps):
                if step.unfitted:
                    self._steps[index] = step.fitted(partial(self._example, index))
                    self._set(self._view.with_steps(self._steps).chain(self._chain.layer))
            self._fitted = True
        return self._steps

    def _example(self, index: int, k: int, n: int) -> np.ndarray:
        """Return what transform `index` is given of image `k` of `n`, spread evenly over all images."""
        rng = stream(self._seed, "fit", k)
        number = self._good(k * len(self._gallery.shapes) // n)
        chance = Chance(self._seed, (k,), (k,), rng)
        return self._chain.until(index, self._at_start(number), chance, self._earlier(number)).pixels

    def _own(self, slice_: int) -> int:
        return 0 if self._view.slices == "same" else slice_

    def _picture(self, slice_: int, display: int) -> tuple[int, Picture]:
        """Return the number of the image, and what is shown of it."""
        if not self._fitted:
            self.fitted()
        chain, own = self._chain, self._own(slice_)
        film = self._playlist.crop(own, display)
        rng = stream(self._seed, "crop", *film)
        for _ in range(DRAWS if chain.contrast else 1):
            number = self._good(self._playlist.frame(own, display, rng))
            chance = Chance(self._seed, film, (own, display), rng)
            cropped = chain.crop(self._at_start(number), chance, self._earlier(number))
            if not chain.contrast or cropped.pixels.std() >= chain.contrast:
                break
        return number, chain.finish(cropped, chance, self._earlier(number))

    def _earlier(self, number: int) -> Callable[[int], Picture]:
        """Return a function that returns the frame that is older by `age`, but of the same film."""
        first = number - self._gallery.item(number)[1] if self._gallery.films else 0
        return lambda age: self._at_start(self._good(max(first, number - age)))

    def _good(self, number: int) -> int:
        """Return the image, or the next good one where it is skipped."""
        if self._view.on_bad_item == "error" or number in self._decoded:
            return number
        first, count = bisect_left(self._usable, number), len(self._usable)
        for at in range(first, first + count):
            number = self._usable[at % count]
            if number in self._decoded:
                return number
            if number in self._bad:
                continue
            rows, columns, _ = self._gallery.shapes[number]
            try:  # all of it: whether it is skipped must not depend on the part that is shown first
                _stored(self._gallery, number, slice(0, rows), slice(0, columns))
            except InputError as error:
                self._bad.add(number)
                log.warning("an image is skipped:\n%s", error)
            else:
                self._decoded.add(number)
                return number
        raise InputError(f"{self._gallery.name(number)}: all images are damaged, this one and all others")


def _begin(gallery: Gallery, chain: Chain, number: int) -> Picture:
    return chain.begin(Picture(gallery.shapes[number], partial(_stored, gallery, number)))


def _stored(gallery: Gallery, number: int, rows: slice, columns: slice) -> np.ndarray:
    """Return a part of an image, float64; integers are scaled to [0, 1].

    Raises InputError if some pixels are not finite.
    """
    name = gallery.name(number)
    stored = gallery.read(number, rows, columns)
    pixels: np.ndarray = stored.astype(float) / largest(stored.dtype, name)
    if not np.isfinite(pixels).all():
        raise InputError(
            f"{name}: some pixels are not finite\n    found:    NaN or infinity in the "
            f"{rows.stop - rows.start} rows from {rows.start}, "
            f"{columns.stop - columns.start} columns from {columns.start}"
        )
    return pixels
