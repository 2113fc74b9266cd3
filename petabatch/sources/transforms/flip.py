"""Mirror images."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Fraction


class Flip(Transform):
    """The mirror image, of some images; all frames of a film are flipped, or none."""

    moves: ClassVar[bool] = True
    pixelwise: ClassVar[bool] = True
    type: Literal["flip"] = "flip"
    direction: Literal["horizontal", "vertical"] = "horizontal"
    """`horizontal`: left and right are exchanged. `vertical`: top and bottom are."""
    probability: Fraction = 0.5
    """Fraction of images that are flipped."""

    @property
    def random(self) -> bool:
        """Whether some images are flipped and others not."""
        return 0 < self.probability < 1

    def shows(self, picture: Picture, layer: Shape, draws: Draws) -> Picture:
        """Return the image or its mirror image."""
        if not (draws.of_film().random() < self.probability):
            return picture
        return picture.mirrored(0 if self.direction == "vertical" else 1)

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels: `shows` flips them."""
        return pixels
