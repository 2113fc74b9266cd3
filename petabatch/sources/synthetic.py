"""Synthetic images, drawn for each slice and display."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache, partial
from typing import Literal, Self

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.libm import cos, power, sin
from petabatch.random import LazyStream, stream
from petabatch.sources.transformed import TransformedSource
from petabatch.sources.transforms import Chain, Chance
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Count, Finite, Fraction, NonNegative, Positive

_DISCS = 2048
"""Discs drawn at a time."""


class Synthetic(TransformedSource):
    """The base of synthetic sources; a subclass draws one image.

    An image depends on the seed of the run, the slice and the display alone. It has the size of the layer,
    which transforms must not change.
    """

    @model_validator(mode="after")
    def _images_are_drawn_once(self) -> Self:
        if contrast := max((step.least_contrast for step in self.steps), default=0.0):
            raise PydanticCustomError(
                "synthetic_contrast",
                "a synthetic image is not drawn again, whatever its contrast",
                {"got": f"contrast = {contrast:g}", "expected": "a crop without contrast"},
            )
        return self

    @abstractmethod
    def image(self, shape: tuple[int, int, int], rng: np.random.Generator, display: int) -> np.ndarray:
        """Return one image `[ny, nx, nf]`."""

    def key(self, slice_: int, display: int) -> tuple[int, ...]:
        """Return the key of the random numbers of an image."""
        return slice_, display

    def open(self, shape: Shape, batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return the reader; raises InputError if the transforms change the shape."""
        chain = self.chain(shape)
        if (error := chain.check(self._drawn(chain))) is not None:
            raise error

        @cache
        def when_shown() -> tuple[Synthetic, Chain]:
            source: Synthetic = self.fitted(shape, seed)
            return source, source.chain(shape)

        def read(slice_: int, display: int) -> np.ndarray:
            source, chain = when_shown()
            own = 0 if source.slices == "same" else slice_
            key = source.key(own, display)

            def frame(age: int) -> Picture:
                """Return the image shown `age` displays ago, but with the same random numbers."""
                before = max(0, display - age)
                while source.key(own, before) != key:
                    before += 1
                return source._picture(chain, stream(seed, source.type, *key), before)

            chance = Chance(seed, key, (own, display), LazyStream(seed, "crop", *key))
            picture = chain.crop(frame(0), chance, frame)
            return chain.finish(picture, chance, frame).pixels.astype(np.float32)

        return read

    def fitted(self, shape: Shape, seed: int) -> Self:
        """Return the source with its transforms fitted to images of their own."""
        source = self
        for index, step in enumerate(self.steps):
            if step.unfitted:
                example = partial(source._example, source.chain(shape), index, seed)
                steps = list(source.steps)
                source = source.with_steps([*steps[:index], step.fitted(example), *steps[index + 1 :]])
        return source

    def _example(self, chain: Chain, index: int, seed: int, k: int, n: int) -> np.ndarray:
        """Return what transform `index` is given of image `k` of `n`."""
        picture = self._picture(chain, stream(seed, "fit", k), k)
        chance = Chance(seed, (k,), (k,), LazyStream(seed, "fit crop", k))
        return chain.until(index, picture, chance, lambda age: picture).pixels

    def _drawn(self, chain: Chain) -> Shape:
        """Return the shape of the images that are drawn: that of the layer, with the channels needed."""
        return *chain.layer[:2], chain.wanted or chain.layer[2]

    def _picture(self, chain: Chain, rng: np.random.Generator, display: int) -> Picture:
        shape = self._drawn(chain)
        drawn = cache(lambda: self.image(shape, rng, display))
        return chain.begin(Picture(shape, lambda rows, columns: drawn()[rows, columns]))


class Bars(Synthetic):
    """Horizontal and vertical bars of one pixel's width, each present with the same probability.

    All channels are equal. Source: Földiák, Biological Cybernetics 64 (1990).
    """

    type: Literal["bars"] = "bars"
    probability: Fraction = 0.125
    """Probability of each bar."""
    overlap: Literal["or", "add"] = "or"
    """Where two bars cross, the value is 1 (`or`) or 2 (`add`)."""

    def image(self, shape: tuple[int, int, int], rng: np.random.Generator, display: int) -> np.ndarray:
        """Return bars of value 1 on 0."""
        rows, columns = (rng.random(count) < self.probability for count in shape[:2])
        summed = rows[:, None].astype(float) + columns[None, :]
        return np.repeat(
            (np.minimum(summed, 1.0) if self.overlap == "or" else summed)[:, :, None], shape[2], axis=2
        )


class DeadLeaves(Synthetic):
    """Discs of random radius, position and colour that occlude each other, until they cover the image.

    The density of radii is proportional to r^-3, so that statistics are nearly scale-invariant, as those of
    natural images are. Source: Lee, Mumford and Huang, International Journal of Computer Vision 41 (2001).
    """

    type: Literal["dead_leaves"] = "dead_leaves"
    smallest: Positive = 2.0
    """Smallest radius, in pixels."""
    largest: Positive = 100.0
    """Largest radius, in pixels."""

    @model_validator(mode="after")
    def _radii_in_order(self) -> DeadLeaves:
        if self.smallest >= self.largest:
            raise PydanticCustomError(
                "radii",
                "the smallest radius is not smaller than the largest",
                {"got": f"smallest = {self.smallest:g}, largest = {self.largest:g}", "expected": "a range"},
            )
        return self

    def image(self, shape: tuple[int, int, int], rng: np.random.Generator, display: int) -> np.ndarray:
        """Return colours in [0, 1), drawn from front to back so that no pixel is painted twice."""
        ny, nx, nf = shape
        pixels, bare = np.zeros(shape), np.ones((ny, nx), bool)
        y, x = np.ogrid[:ny, :nx]
        while bare.any():
            for radius, row, column in self._discs(ny, nx, rng):
                disc = bare & ((y - row) ** 2 + (x - column) ** 2 <= radius**2)
                pixels[disc] = rng.random(nf)
                bare &= ~disc
        return pixels

    def _discs(self, ny: int, nx: int, rng: np.random.Generator) -> np.ndarray:
        """Return radius, row and column of discs that may touch the image, of many drawn around it."""
        least, most = self.largest**-2, self.smallest**-2
        radius = (least + (most - least) * rng.random(_DISCS)) ** -0.5
        row = rng.uniform(-self.largest, ny + self.largest, _DISCS)
        column = rng.uniform(-self.largest, nx + self.largest, _DISCS)
        near = (row > -radius) & (row < ny + radius) & (column > -radius) & (column < nx + radius)
        return np.stack([radius, row, column], axis=1)[near]


class Gratings(Synthetic):
    """Moving sinusoidal gratings; each slice has its own orientation, which changes every `frames` displays.

    The value is 0.5 + 0.5 cos(2 pi (r . k - speed * frame * |k|) + phase), in all channels.
    """

    type: Literal["gratings"] = "gratings"
    wavelength: Positive = 8.0
    """Pixels per cycle."""
    speed: Finite = 1.0
    """Pixels per display, along the direction of the wave."""
    frames: Count = 20
    """Displays until orientation and phase are drawn again."""

    def key(self, slice_: int, display: int) -> tuple[int, ...]:
        """Return the same key for all frames of a grating."""
        return slice_, display // self.frames

    def image(self, shape: tuple[int, int, int], rng: np.random.Generator, display: int) -> np.ndarray:
        """Return a frame."""
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        y, x = np.ogrid[: shape[0], : shape[1]]
        along = y * sin(angle) + x * cos(angle) - self.speed * (display % self.frames)
        wave = 0.5 + 0.5 * cos(2 * np.pi * along / self.wavelength + phase)
        return np.repeat(wave[:, :, None], shape[2], axis=2)


class Noise(Synthetic):
    """Gaussian noise with amplitudes proportional to 1 / f^exponent, of zero mean and unit deviation.

    With exponent 1 its spectrum is that of natural images (Field, Journal of the Optical Society of America A
    4, 1987); with 0 it is white. Edges wrap around.
    """

    type: Literal["noise"] = "noise"
    exponent: NonNegative = 1.0
    """Exponent of the amplitude spectrum."""

    def image(self, shape: tuple[int, int, int], rng: np.random.Generator, display: int) -> np.ndarray:
        """Return the noise; a single pixel has no spectrum and is 0."""
        ny, nx, _ = shape
        frequency = np.hypot(np.fft.fftfreq(ny)[:, None], np.fft.rfftfreq(nx)[None, :])
        frequency[0, 0] = np.inf
        spectrum = np.fft.rfft2(rng.standard_normal(shape), axes=(0, 1))
        spectrum *= (power(frequency, -self.exponent) if self.exponent else np.isfinite(frequency))[
            :, :, None
        ]
        pixels = np.fft.irfft2(spectrum, (ny, nx), axes=(0, 1))
        std = pixels.std()
        return np.asarray(pixels / std if std else pixels)
