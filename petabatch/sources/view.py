"""Sources of still images and films: which is shown, and its transforms."""

from __future__ import annotations

import math
from abc import abstractmethod
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
from petabatch.sources.transformed import TransformedSource
from petabatch.sources.transforms import Chain, Crop, Transform
from petabatch.sources.transforms.anchors import Position
from petabatch.sources.views import Views
from petabatch.spec.images import ImageStream
from petabatch.spec.model import Index, NonNegative


class View(TransformedSource):
    """The base of sources of still images; a subclass provides the images by `gallery`.

    Random choices depend only on the seed of the run, `seed`, the slice and the item. Two sources with the
    same settings therefore show corresponding crops of corresponding images (a stereo pair, an image and its
    labels).
    """

    in_short: ClassVar[tuple[str, ...]] = ("crop", "offset", "contrast", "normalize")
    of_numbers: ClassVar[bool] = False
    """Its images are arrays of numbers, whose channels are what they are: no colours to be made grey."""
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
    seed: Index = 0
    """Stream of random numbers: of two sources with different ones, orders, crops and flips are
    independent."""
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

    @property
    def crops_as_asked(self) -> bool:
        """Whether `transforms`, or a key of the crop, is given."""
        return bool(self.transforms) or not self.model_fields_set.isdisjoint(("crop", "offset", "contrast"))

    @property
    def resets(self) -> bool:
        """As its order says."""
        return self.order.resets

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Views:
        """Return the reader; raises InputError if an image does not fit the layer."""
        views = self._views(shape, batch, seed)
        views.expect(batch)
        return views

    def _views(self, shape: tuple[int, int, int], batch: int, seed: int) -> Views:
        seed = self._stream(seed)
        gallery, chain, bad = self._usable(shape)
        playlist = self.order.open(gallery.frames, 1 if self.slices == "same" else batch, seed)
        return self._reader(gallery, playlist, chain, seed, bad)

    def read(self, gallery: Gallery, shape: tuple[int, int, int]) -> Views:
        """Return a reader of some images, which all fit, in their order, each shown once."""
        playlist = Sequential().open(gallery.frames, len(gallery.shapes), 1)
        return self._reader(gallery, playlist, self.chain(shape), self._stream(1), set())

    def _stream(self, seed: int) -> int:
        """Return the seed of this source's random choices in a run with `seed`."""
        return int(stream(seed, "source", self.seed).integers(2**63)) if self.seed else seed

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

    def nbytes_of_rows(self, shape: tuple[int, int, int]) -> int:
        """Return nothing but what is decoded as a whole, if transforms make each pixel by itself."""
        apart = all(step.pixelwise and not step.least_contrast for step in self.steps)
        if apart and type(self).open is View.open:
            return self.decoded * math.prod(shape)
        return super().nbytes_of_rows(shape)

    @property
    def decoded(self) -> int:
        """Bytes of each number of an image that is decoded as a whole, at most; 0 if a part can be read."""
        return np.dtype(np.float64).itemsize

    @property
    def traced(self) -> bool:
        """It knows which image it shows."""
        return True

    def stream(self, shape: tuple[int, int, int], batch: int, seed: int) -> ImageStream:
        """Return the reader, which also knows what it shows.

        A subclass with an `open` of its own changes what is read, not which images are shown.
        """
        opened = self.open(shape, batch, seed)
        return opened if isinstance(opened, Views) else self._views(shape, batch, seed).through(opened)

    @property
    def fitted_by_chance(self) -> bool:
        """Whether a transform before one that is to be fitted is random."""
        last = max((at for at, step in enumerate(self.steps) if step.unfitted), default=0)
        return any(step.random for step in self.steps[:last])

    def fitted(self, shape: tuple[int, int, int], seed: int) -> View:
        """Return the source with its transforms fitted to its images."""
        if not self.unfitted:
            return self
        seed = self._stream(seed)
        gallery, chain, bad = self._usable(shape)
        playlist = Sequential().open(gallery.frames, 1, seed)  # in whatever order they are shown
        return self.with_steps(self._reader(gallery, playlist, chain, seed, bad).fitted())

    def _reader(self, gallery: Gallery, playlist: Playlist, chain: Chain, seed: int, bad: set[int]) -> Views:
        apart = self.order.apart and self.slices == "own"
        return Views(self, gallery, playlist, chain, seed, bad, self.on_bad_item == "skip", apart)

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
