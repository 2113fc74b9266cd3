"""Padding of images that are too small."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.transforms.anchors import Anchor, anchored
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Count, Finite


class Pad(Transform):
    """Pixels around images that are too small; rows or columns that are enough remain."""

    moves: ClassVar[bool] = True
    type: Literal["pad"] = "pad"
    size: tuple[Count, Count] | None = None
    """Rows and columns that the result has at least; by default those of the layer."""
    mode: Literal["constant", "mirror"] = "constant"
    """Pixels added: `value`, or the image reflected at its edges."""
    value: Finite = 0.0
    """Value of the pixels added by `constant`; integers of the image are scaled to [0, 1]."""
    position: Anchor = "center"
    """Position of the image in the result."""
    offset: tuple[int, int] = (0, 0)
    """Displacement of the image from its position, in rows down and columns right."""

    def settled(self, crop: Transform, layer: Shape) -> Transform:
        """Return it with its size."""
        return self.model_copy(update={"size": self.size or layer[:2]})

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape with the pixels added; raises InputError if the offset moves the image out."""
        ny, nx = self.size or layer[:2]
        ny, nx = max(ny, shape[0]), max(nx, shape[1])
        y, x = self._corner(ny - shape[0], nx - shape[1])
        if not (0 <= y <= ny - shape[0] and 0 <= x <= nx - shape[1]):
            raise InputError(
                f"the offset moves the image out of its frame\n"
                f"    found:    rows {y} to {y + shape[0] - 1}, columns {x} to {x + shape[1] - 1}\n"
                f"    expected: inside {ny} rows, {nx} columns"
            )
        return ny, nx, shape[2]

    def shows(self, picture: Picture, layer: Shape, draws: Draws) -> Picture:
        """Return the image in its frame."""
        rows, columns, _ = picture.shape
        ny, nx, nf = self.result(picture.shape, layer)
        if (ny, nx) == (rows, columns):
            return picture
        y, x = self._corner(ny - rows, nx - columns)
        around = ((y, ny - rows - y), (x, nx - columns - x), (0, 0))
        axes = picture.axes[0].shifted(-y), picture.axes[1].shifted(-x)
        return picture.then(lambda pixels: self._padded(pixels, around), (ny, nx, nf), axes)

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels: `shows` adds the others."""
        return pixels

    def _padded(self, pixels: np.ndarray, around: tuple[tuple[int, int], ...]) -> np.ndarray:
        if self.mode == "mirror":
            return np.pad(pixels, around, mode="symmetric")
        return np.pad(pixels, around, constant_values=self.value)

    def _corner(self, rows: int, columns: int) -> tuple[int, int]:
        y, x = anchored(self.position, rows, columns)
        return y + self.offset[0], x + self.offset[1]
