"""Crops: a part of an image at a fixed or random position."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.sources.transforms.anchors import Position, anchored
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Count, Index, NonNegative


class Crop(Transform):
    """A part of the image."""

    moves: ClassVar[bool] = True
    pixelwise: ClassVar[bool] = True
    type: Literal["crop"] = "crop"
    size: tuple[Count, Count] | None = None
    """Rows and columns; by default those of the layer."""
    position: Position = "random"
    """Position in the image. `random`: uniformly distributed, the same for all frames of a film."""
    offset: tuple[int, int] = (0, 0)
    """Displacement from a position that is not random, in rows down and columns right."""
    jitter: tuple[Index, Index] = (0, 0)
    """Largest random displacement, in rows and columns, drawn in each display, also within a film."""
    contrast: NonNegative = 0.0
    """Minimum contrast of a random crop: image and position are drawn again, up to 100 times, while the
    standard deviation of the pixels is smaller than this. At most one crop of a source has it."""

    @model_validator(mode="after")
    def _random_crops_have_no_offset(self) -> Crop:
        if self.position == "random" and self.offset != (0, 0):
            raise PydanticCustomError(
                "offset",
                "a random crop cannot have an offset",
                {"got": str(list(self.offset)), "expected": "another position with an offset"},
            )
        if self.position != "random" and self.contrast:
            raise PydanticCustomError(
                "contrast",
                "only a random crop can be drawn again",
                {"got": f"contrast = {self.contrast}", "expected": 'position = "random" with contrast'},
            )
        return self

    @property
    def random(self) -> bool:
        """Whether its position is."""
        return self.position == "random" or self.jitter != (0, 0)

    @property
    def leads(self) -> bool:
        """Whether its position is random."""
        return self.position == "random"

    @property
    def least_contrast(self) -> float:
        """`contrast`."""
        return self.contrast

    def settled(self, crop: Transform, layer: Shape) -> Transform:
        """Return `crop`, of this size if it is given."""
        return crop if self.size is None else crop.model_copy(update={"size": self.size})

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape of the part; raises InputError if it is not inside the image."""
        ny, nx = self.size or layer[:2]
        (rows, columns), (high, wide) = (shape[0] - ny, shape[1] - nx), self.jitter
        if rows < 2 * high * self.leads or columns < 2 * wide * self.leads:
            around = " and its jitter" if self.leads and self.jitter != (0, 0) else ""
            least = ny + 2 * high * self.leads, nx + 2 * wide * self.leads
            raise InputError(
                f"the image is smaller than the {'layer' if self.size is None else 'crop'}{around}\n"
                f"    found:    {shape[0]} rows, {shape[1]} columns\n"
                f"    expected: at least {least[0]} rows, {least[1]} columns\n"
                f"    hint:     make the layer smaller, leave out this image, or enlarge it first, by a "
                f'transform "pad" or "resize"'
            )
        if not self.leads:
            y, x = self._fixed(rows, columns)
            if not (high <= y <= rows - high and wide <= x <= columns - wide):
                raise InputError(
                    f"the {'jitter' if 0 <= y <= rows and 0 <= x <= columns else 'offset'} "
                    f"moves the crop out of the image\n"
                    f"    found:    rows {y - high} to {y + ny - 1 + high}, "
                    f"columns {x - wide} to {x + nx - 1 + wide}\n"
                    f"    expected: inside {shape[0]} rows, {shape[1]} columns"
                )
        return ny, nx, shape[2]

    def shows(self, picture: Picture, layer: Shape, draws: Draws) -> Picture:
        """Return the part; only its pixels are read."""
        ny, nx, _ = self.result(picture.shape, layer)
        rows, columns = picture.shape[0] - ny, picture.shape[1] - nx
        high, wide = self.jitter
        if self.leads and (rows, columns) == (2 * high, 2 * wide):
            y, x = high, wide
        elif self.leads:
            rng = draws.of_film()
            y = high + int(rng.integers(rows - 2 * high + 1))
            x = wide + int(rng.integers(columns - 2 * wide + 1))
        else:
            y, x = self._fixed(rows, columns)
        if self.jitter != (0, 0):
            rng = draws.of_display()
            y += int(rng.integers(-high, high, endpoint=True))
            x += int(rng.integers(-wide, wide, endpoint=True))
        return picture.part(y, x, ny, nx)

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels: all that are read are shown."""
        return pixels

    def _fixed(self, rows: int, columns: int) -> tuple[int, int]:
        y, x = anchored(self.position, rows, columns)
        return y + self.offset[0], x + self.offset[1]
