"""The region that an image covers."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.sources.transforms.base import Draws, Transform


class Region(Transform):
    """1 in all pixels of the image, so that those that a later `pad` adds stand out.

    With the transforms of another layer around it, it shows which of that layer's pixels are of an image.
    Corresponds to PetaVision's InputRegionLayer (`InputActivityBuffer.cpp`).
    """

    type: Literal["region"] = "region"

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return ones of the same shape."""
        return np.ones_like(pixels)
