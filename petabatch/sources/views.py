"""The reader of a view: which part of which image each slice shows, and its pixels."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

from petabatch.errors import InputError
from petabatch.logs import log
from petabatch.random import LazyStream
from petabatch.sources.gallery import Gallery
from petabatch.sources.orders import Playlist
from petabatch.sources.pixels import largest
from petabatch.sources.transformed import KEPT_BYTES, TransformedSource
from petabatch.sources.transforms import Chain, Chance, Transform
from petabatch.sources.transforms.picture import Picture
from petabatch.spec.images import ImageStream, Shown

DRAWS = 100
"""Largest number of crops drawn to reach the required contrast."""
_LITTLE = 8
"""The part of a layer, 1 / 8, by which images are larger that may have been meant to be as large."""
_BYTES = 16, 255
"""The largest float of an image that was stored in 8 bits is between these."""
KEPT = 8
"""Displays of each slice whose image and crop are remembered: more than are read ahead."""


class Views(ImageStream):
    """The images of a view as slices show them; thread-safe."""

    def __init__(
        self,
        source: TransformedSource,
        gallery: Gallery,
        playlist: Playlist,
        chain: Chain,
        seed: int,
        bad: set[int],
        skip: bool,
        apart: bool,
    ) -> None:
        """`bad` are the images that are known to be damaged; with `skip`, these and others are skipped.

        `apart` says that slices are at different places of films.
        """
        self._source, self._gallery, self._playlist = source, gallery, playlist
        self._seed, self._steps, self._skip, self._apart = seed, list(source.steps), skip, apart
        numbers = range(len(gallery.shapes))
        self._usable: Sequence[int] = [n for n in numbers if n not in bad] if bad else numbers
        """Images that were not bad when they were opened."""
        self._bad, self._decoded = set[int](), set[int]()
        """Images that have turned out to be bad when they were decoded, or to be good."""
        self.displays = playlist.displays
        self.files, self.forward = gallery.files, bool(gallery.films)
        self._through: Callable[[int, int], np.ndarray] | None = None
        self._latest: dict[tuple[int, int], tuple[int, int, Picture]] = {}
        """Of each slice the displays that were read last, by their numbers modulo `KEPT`: the display, the
        number of its image and its outline."""
        self._fitting, self._fitted = threading.Lock(), not source.unfitted
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
        return self.rows(slice_, display, slice(0, self._chain.layer[0]))

    def rows(self, slice_: int, display: int, rows: slice) -> np.ndarray:
        """Return some rows; others are read only if transforms, or the file, need them."""
        if self._through is not None:
            return super().rows(slice_, display, rows)
        number, picture = self._picture(slice_, display)
        self._latest[slice_, display % KEPT] = display, number, picture.outline
        shown = picture.part(rows.start, 0, rows.stop - rows.start, picture.shape[1])
        return shown.pixels.astype(np.float32)

    @property
    def notes(self) -> Sequence[str]:
        """What following films will cost all that do, slices that show the same, crops that nobody chose."""
        notes = self._gallery.note(), self._playlist.note, self._note_of_crops()
        return [note for note in notes if note]

    @property
    def found(self) -> str:
        """How many images of which sizes there are, and what is left out or not scaled."""
        gallery, number = self._gallery, len(self._usable)
        sizes = sorted({gallery.shapes[each][:2] for each in self._usable})
        what = f"{number:,} {'frame' if gallery.films else 'image'}{'s' * (number != 1)}"
        films = len({gallery.item(each)[0] for each in self._usable}) if gallery.films else 0
        parts = [
            f"{what} of {films:,} film{'s' * (films != 1)}" if films else what,
            " to ".join(f"{rows} x {columns}" for rows, columns in dict.fromkeys((sizes[0], sizes[-1]))),
        ]
        if left := len(gallery.shapes) - number:
            parts.append(f"{left:,} more cannot be shown")
        try:
            first = gallery.read(self._usable[0], slice(None), slice(None))
        except InputError:  # told, or skipped, where it is shown
            return ", ".join(parts)
        scaled = first.dtype.kind != "f" or any(step.type == "normalize" for step in self._steps)
        if not scaled and first.min() >= 0 and _BYTES[0] <= first.max() <= _BYTES[1]:
            parts.append(f"floats to {first.max():.3g}, which are not scaled: are they pixels of 8 bits?")
        return ", ".join(parts)

    def _note_of_crops(self) -> str:
        """Say that images are a little larger than the layer, unless the source says how they are cropped."""
        shapes, (ny, nx, _) = {self._gallery.shapes[number][:2] for number in self._usable}, self._chain.layer
        if self._source.crops_as_asked or len(shapes) != 1:
            return ""
        ((rows, columns),) = shapes
        if (rows, columns) == (ny, nx) or rows - ny > ny // _LITTLE or columns - nx > nx // _LITTLE:
            return ""
        return (
            f"its images of {rows} x {columns} are a little larger than the layer of {ny} x {nx}: displays "
            'show a random part of them; crop = "random" says that this is meant'
        )

    def expect(self, slices: int) -> None:
        """Prepare for the number of slices, which follow films, unless another reader reads them."""
        if self._through is None:
            self._gallery.expect(self, slices if self._apart else 1)

    def shown(self, slice_: int, display: int, margin: tuple[int, int] = (0, 0)) -> Shown:
        """Return the item, its frame and the crop, without a margin of rows and columns at each edge."""
        latest, number, picture = self._latest.get((slice_, display % KEPT), (None, 0, None))
        if picture is None or latest != display:
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
                    self._set(self._source.with_steps(self._steps).chain(self._chain.layer))
            self._fitted = True
        return self._steps

    def _example(self, index: int, k: int, n: int) -> np.ndarray:
        """Return what transform `index` is given of image `k` of `n`, spread evenly over all images."""
        rng = LazyStream(self._seed, "fit", k)
        number = self._good(k * len(self._gallery.shapes) // n)
        chance = Chance(self._seed, (k,), (k,), rng)
        return self._chain.until(index, self._at_start(number), chance, self._earlier(number)).pixels

    def _own(self, slice_: int) -> int:
        return 0 if self._source.slices == "same" else slice_

    def _picture(self, slice_: int, display: int) -> tuple[int, Picture]:
        """Return the number of the image, and what is shown of it."""
        if not self._fitted:
            self.fitted()
        chain, own = self._chain, self._own(slice_)
        film = self._playlist.crop(own, display)
        rng = LazyStream(self._seed, "crop", *film)
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
        if not self._skip or number in self._decoded:
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
    pixels: np.ndarray = stored.astype(float)
    pixels /= largest(stored.dtype, name)
    if not np.isfinite(pixels).all():
        raise InputError(
            f"{name}: some pixels are not finite\n    found:    NaN or infinity in the "
            f"{rows.stop - rows.start} rows from {rows.start}, "
            f"{columns.stop - columns.start} columns from {columns.start}"
        )
    return pixels
