"""Transforms of each pixel on its own: inverted values, noise, the region that an image covers."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from petabatch.sources.transforms.base import Draws, Transform
from petabatch.spec.model import NonNegative


class Invert(Transform):
    """Dark for light: minimum + maximum of the image minus its values, or their negatives.

    Source: PetaVision's `InputActivityBuffer.cpp:757-870`, inverseFlag.
    """

    type: Literal["invert"] = "invert"
    around: Literal["range", "zero"] = "range"
    """Value that stays: the middle of the image's range, or 0, as for an image that is normalised."""

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the inverted pixels."""
        return -pixels if self.around == "zero" else np.asarray(pixels.min() + pixels.max() - pixels)


class AddNoise(Transform):
    """Gaussian noise, drawn independently in each display."""

    type: Literal["noise"] = "noise"
    std: NonNegative
    """Standard deviation; integers of the image are scaled to [0, 1] before."""

    @property
    def random(self) -> bool:
        """Whether there is any."""
        return self.std > 0

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels with noise."""
        return pixels + self.std * draws.of_frame().standard_normal(pixels.shape)


class Region(Transform):
    """1 in all pixels of the image, so that those that a later `pad` adds stand out.

    With the transforms of another layer around it, it shows which of that layer's pixels are of an image.
    Corresponds to PetaVision's InputRegionLayer (`InputActivityBuffer.cpp`).
    """

    pixelwise: ClassVar[bool] = True
    type: Literal["region"] = "region"

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return ones of the same shape."""
        return np.ones_like(pixels)
