"""Inverted images: dark for light."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.sources.transforms.base import Draws, Transform


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
