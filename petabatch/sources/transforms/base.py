"""The base of transforms, and the random numbers that they draw."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from petabatch.random import stream
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Part


@dataclass(frozen=True)
class Draws:
    """The random numbers of a transform in one display: functions of seed, purpose, slice and display."""

    seed: int
    film: tuple[int, ...]
    """Key of what is the same for all frames of a film; slice and display for still images."""
    display: tuple[int, ...]
    """Slice and display."""
    purpose: str = ""
    age: int = 0
    """Number of frames by which the image is older than the one displayed, in a stack of frames."""

    shared: Callable[[], np.random.Generator] | None = None
    """Returns the generator that has also drawn the image, of the first random crop."""

    def of_film(self) -> np.random.Generator:
        """Return a generator, the same for all frames of a film."""
        return self.shared() if self.shared else stream(self.seed, self.purpose, *self.film)

    def of_frame(self) -> np.random.Generator:
        """Return a generator, another one in each display and for each frame of a stack."""
        return stream(self.seed, f"{self.purpose} frame", *self.display, self.age)

    def of_display(self) -> np.random.Generator:
        """Return a generator, another one in each display, and the same for all frames of a stack."""
        return stream(self.seed, f"{self.purpose} display", *self.display)


class Transform(Part):
    """A step from the stored image to what the layer shows; those of a source are made in the order written.

    Random choices depend on the seed, the slice and the display, or, where they hold for all frames of a
    film, on the film.
    """

    kind: ClassVar[str] = "transform"
    moves: ClassVar[bool] = False
    """It moves pixels and does not change their values: it is the same for any number of channels."""
    converts: ClassVar[bool] = False
    """It decides the number of channels; otherwise images are converted to that of the layer."""
    pixelwise: ClassVar[bool] = False
    """It makes each pixel of that pixel alone, or of one at another place: of a part of the image, only this
    is read."""
    costly: ClassVar[bool] = False
    """Its results are kept where they depend on the image alone."""
    type: str

    @property
    def random(self) -> bool:
        """Whether it draws random numbers."""
        return False

    def settled(self, crop: Transform, layer: Shape) -> Transform | None:
        """Return what takes its place where each image is coded once, at any size; None: nothing.

        `crop` takes the place of crops, and sizes that are not given are those of `layer`.
        """
        return None if self.random else self

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape that it makes of an image of `shape`; raises InputError if it cannot.

        `layer` is the shape of the layer, with what connections see beyond its edge.
        """
        return shape

    def before(self, channels: int) -> int:
        """Return the channels that an image must have for the result to have `channels`."""
        return channels

    def shows(self, picture: Picture, layer: Shape, draws: Draws) -> Picture:
        """Return the transformed image; pixels need not be computed yet."""
        shape = self.result(picture.shape, layer)
        if self.pixelwise:
            return picture.each(lambda pixels: self.apply(pixels, draws), shape)
        return picture.then(lambda pixels: self.apply(pixels, draws), shape)

    @property
    def leads(self) -> bool:
        """Whether its first random numbers are drawn together with the choice of a random image."""
        return False

    @property
    def least_contrast(self) -> float:
        """Standard deviation of pixels below which image and position are drawn again."""
        return 0.0

    @property
    def ages(self) -> Sequence[int]:
        """By how many frames each of the frames that it needs is older than the one displayed."""
        return (0,)

    def stacked(self, pictures: Sequence[Picture], layer: Shape, draws: Draws) -> Picture:
        """Return the transformed image, given the frames of all `ages`."""
        return self.shows(pictures[-1], layer, draws)

    @abstractmethod
    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the transformed pixels `[ny, nx, nf]`, float64; the given ones are not to be changed."""

    @property
    def unfitted(self) -> bool:
        """Whether it needs to see images before it can be used."""
        return False

    def fitted(self, read: Callable[[int, int], np.ndarray]) -> Transform:
        """Return the transform fitted to images.

        `read(k, n)` returns image `k` of `n` that are spread evenly over those of the source, as this
        transform is given them.
        """
        return self

    def nbytes(self, layer: Shape) -> int:
        """Return the bytes of memory that it takes, without that of images."""
        return 0
