"""Noise added to images."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.sources.transforms.base import Draws, Transform
from petabatch.spec.model import NonNegative


class AddNoise(Transform):
    """Gaussian noise, drawn independently in each display."""

    type: Literal["noise"] = "noise"
    deviation: NonNegative
    """Standard deviation; integers of the image are scaled to [0, 1] before."""

    @property
    def random(self) -> bool:
        """Whether there is any."""
        return self.deviation > 0

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels with noise."""
        return pixels + self.deviation * draws.of_frame().standard_normal(pixels.shape)
