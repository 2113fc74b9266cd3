"""Stacks of successive frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Count


class Frames(Transform):
    """The frame of the film and those before it as channels, the oldest first.

    Before the first frame of a film stands the first one. Transforms before this one are made of each frame
    with the same random choices, but for noise.
    """

    type: Literal["frames"] = "frames"
    count: Count
    """Number of frames."""
    every: Count = 1
    """Frames of the film from one to the next."""

    @property
    def ages(self) -> range:
        """By how many frames each is older than the one displayed."""
        return range((self.count - 1) * self.every, -1, -self.every)

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape with the channels of all frames."""
        return *shape[:2], self.count * shape[2]

    def before(self, channels: int) -> int:
        """Return the channels of each frame; raises InputError if they cannot be equal."""
        if channels % self.count:
            raise InputError(
                f"the frames do not divide the features of the layer\n    found:    {self.count} frames\n"
                f"    expected: a divisor of {channels}"
            )
        return channels // self.count

    def stacked(self, pictures: Sequence[Picture], layer: Shape, draws: Draws) -> Picture:
        """Return the frames, the oldest first, as channels."""
        *_, newest = pictures
        stack = partial(np.concatenate, axis=2)
        return newest.then(
            lambda _: stack([picture.pixels for picture in pictures]), self.result(newest.shape, layer)
        )

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels: the chain stacks those of the frames."""
        return pixels
