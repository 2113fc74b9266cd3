"""Conversion between grey and colour images."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.pixels import channels, convertible
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Shape


class Grey(Transform):
    """One channel: 0.30 red + 0.59 green + 0.11 blue."""

    converts: ClassVar[bool] = True
    pixelwise: ClassVar[bool] = True
    type: Literal["grey"] = "grey"

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape with one channel; raises InputError if there are neither one nor three."""
        return _converted(shape, 1)

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the weighted sum of the channels."""
        return channels(pixels, 1)


class Colour(Transform):
    """Three channels, equal ones of a grey image."""

    converts: ClassVar[bool] = True
    pixelwise: ClassVar[bool] = True
    type: Literal["colour"] = "colour"

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape with three channels; raises InputError if there are neither one nor three."""
        return _converted(shape, 3)

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return three channels."""
        return channels(pixels, 3)


class ToLayer(Transform):
    """Conversion to as many channels as the layer needs; it has no `type` to be written in params files."""

    pixelwise: ClassVar[bool] = True
    wanted: int

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape with the channels wanted."""
        return *shape[:2], self.wanted

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the converted pixels."""
        return channels(pixels, self.wanted)


def _converted(shape: Shape, wanted: int) -> Shape:
    if not convertible(shape[2], wanted):
        raise InputError(
            f"this is neither a grey nor a colour image\n    found:    {shape[2]} channels\n"
            f"    expected: 1 or 3"
        )
    return *shape[:2], wanted
