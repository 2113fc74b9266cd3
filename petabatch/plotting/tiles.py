"""Images, and mosaics of many small ones, as matplotlib draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from petabatch.plotting.figures import MUTED

_DIGIT = 0.62
"""Width of a digit, as a fraction of the font size."""
_LARGEST = 1.3
"""Inches of the longer side of a tile, where there are few of them."""


def show(axes: Any, image: np.ndarray) -> None:
    """Draw an image `[y, x, 1 or 3]` with values from 0 to 1; the first row is at the top."""
    grey = image.shape[-1] == 1
    axes.imshow(image[..., 0] if grey else image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()


def frame(axes: Any, corner: Sequence[int], size: Sequence[int]) -> None:
    """Frame pixels, since white ones are not seen on white; `corner` and `size` are rows and columns."""
    from matplotlib.patches import Rectangle

    place = corner[1] - 0.5, corner[0] - 0.5
    axes.add_patch(Rectangle(place, size[1], size[0], fill=False, ec="#b0b0b0", lw=0.6))


class Mosaic(NamedTuple):
    """Tiles in rows, as one image."""

    image: np.ndarray
    """`[y, x, channel]`."""
    corners: np.ndarray
    """First row and column of each tile, `[tile, 2]`."""
    tile: tuple[int, int]
    """Rows and columns of a tile."""
    font: float
    """Size of the labels in points; 0 where they do not fit."""
    inches: float
    """Width as drawn."""

    @property
    def tall(self) -> float:
        """Height as drawn, in inches."""
        return float(self.inches * self.image.shape[0] / self.image.shape[1])


def mosaic(tiles: np.ndarray, columns: int, inches: float, longest: int = 0, gap: float = 1.0) -> Mosaic:
    """Return tiles `[tile, y, x, channel]` in rows of `columns`, to be drawn at most `inches` wide.

    `longest` is the number of characters of the longest label, which is written above its tile; `gap` is the
    value between the tiles.
    """
    count, height, width, channels = tiles.shape
    between = max(1, round(0.1 * max(height, width)))
    pixels = columns * (width + between) - between
    inches = min(inches, _LARGEST * pixels / max(height, width))
    points = 72 * inches / pixels  # of one pixel
    font = min(8.0, points * (width + between) / (_DIGIT * longest)) if longest else 0.0
    font = font if font >= 3.0 else 0.0
    above = int(np.ceil(1.25 * font / points)) if font else 0
    rows = -(-count // columns)
    step = height + max(between, above)
    image = np.full((rows * step - (0 if font else between), pixels, channels), gap)
    corners = np.stack(
        [np.arange(count) // columns * step + above, np.arange(count) % columns * (width + between)], axis=1
    )
    for tile, (y, x) in zip(tiles, corners, strict=True):
        image[y : y + height, x : x + width] = tile
    return Mosaic(image, corners, (height, width), font, inches)


def label(axes: Any, laid: Mosaic, labels: Sequence[str], marked: Sequence[bool] = ()) -> None:
    """Write a label above each tile, and frame those that are marked in red."""
    from matplotlib.patches import Rectangle

    height, width = laid.tile
    for number, ((y, x), text) in enumerate(zip(laid.corners, labels, strict=True)):
        red = bool(marked) and marked[number]
        if laid.font:
            axes.text(
                x + width / 2 - 0.5, y - 0.5, text, fontsize=laid.font, ha="center", va="bottom",
                color="#c00000" if red else MUTED,
            )  # fmt: skip
        if red:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), width, height, fill=False, ec="#c00000", lw=1.0))


def columns_of(count: int, aspect: float, wide: float = 1.5) -> int:
    """Return a number of columns for a mosaic `wide` times as wide as high, preferring full rows.

    `aspect` is the height of a tile by its width.
    """
    ideal: float = math.sqrt(wide * count * aspect)
    near = range(max(1, int(0.75 * ideal)), max(2, int(1.4 * ideal) + 1))
    full = [n for n in near if count % n == 0]
    return min(full or [max(1, round(ideal))], key=lambda n: float(abs(n - ideal)))
