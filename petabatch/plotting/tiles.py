"""Images, and mosaics of many small ones, as matplotlib draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from petabatch.plotting.figures import FRAME, MARK, MUTED

_DIGIT = 0.62
"""Width of a digit, as a fraction of the font size."""
_FINEST = 3
"""Pixels that the longer side of a tile has at least: the height of labels is a whole number of pixels."""
_LARGEST = 1.0
"""Inches of the longer side of a tile, where there are few of them."""
_FONT = 4.5, 7.0
"""Smallest and largest labels in points: smaller ones cannot be read in print."""
_LINE = 1.6
"""Distance of tiles by the size of the labels between them, which are nearer to those below."""
_FRAMED = 14.0
"""Points of the longer side of a tile from which on its frame is as broad as those of axes."""


def show(axes: Any, image: np.ndarray) -> None:
    """Draw an image `[y, x, 1 or 3]` with values from 0 to 1; the first row is at the top."""
    grey = image.shape[-1] == 1
    # "auto" is "nearest" unless pixels are small: then gaps between tiles would be broad here and thin there.
    axes.imshow(image[..., 0] if grey else image, cmap="gray", vmin=0, vmax=1, interpolation="auto")
    axes.set_axis_off()
    axes.set_anchor("NW")


def bare(axes: Any, **labels: Any) -> None:
    """Frame an image in the style of the plots, without ticks.

    Parameters
    ----------
    axes
        Axes of matplotlib.
    labels
        Labels, as those of `Axes.set`.
    """
    axes.set(xticks=[], yticks=[], **labels)
    for side in axes.spines.values():
        side.set(visible=True, color=FRAME)


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


def mosaic(
    tiles: np.ndarray,
    columns: int,
    inches: float,
    longest: int = 0,
    gap: float = 1.0,
    tallest: float = math.inf,
) -> Mosaic:
    """Return tiles `[tile, y, x, channel]` in rows of `columns`, at most `inches` wide and `tallest` high.

    `longest` is the number of characters of the longest label, which is written above its tile; `gap` is the
    value between the tiles.
    """
    fold = -(-_FINEST // max(tiles.shape[1:3]))
    tiles = tiles.repeat(fold, axis=1).repeat(fold, axis=2)
    count, height, width, channels = tiles.shape
    between = max(1, round(0.1 * max(height, width)))
    pixels = columns * (width + between) - between
    rows = -(-count // columns)
    inches = min(inches, _LARGEST * pixels / max(height, width))
    above = 0
    for _ in range(2):  # the height of labels follows from the width, which may follow from the height
        high = rows * (height + max(between, above))
        inches = min(inches, tallest * pixels / high)
        points = 72 * inches / pixels  # of one pixel
        font = min(_FONT[1], points * (width + between) / (_DIGIT * (longest + 1))) if longest else 0.0
        font = font if font >= _FONT[0] else 0.0
        above = int(np.ceil(_LINE * font / points)) if font else 0
    step = height + max(between, above)
    image = np.full((rows * step - (0 if font else between), pixels, channels), gap)
    corners = np.stack(
        [np.arange(count) // columns * step + above, np.arange(count) % columns * (width + between)], axis=1
    )
    for tile, (y, x) in zip(tiles, corners, strict=True):
        image[y : y + height, x : x + width] = tile
    return Mosaic(image, corners, (height, width), font, inches)


def label(axes: Any, laid: Mosaic, labels: Sequence[str] = (), marked: Sequence[bool] = ()) -> None:
    """Frame each tile, those that are marked in vermilion, and write its label above it."""
    from matplotlib.collections import PolyCollection

    height, width = laid.tile
    red = np.array(marked or [False] * len(laid.corners), bool)
    points = 72 * laid.inches / laid.image.shape[1] * max(laid.tile)
    thin = min(0.6, 0.6 * points / _FRAMED)
    box = np.array([(0, 0), (width, 0), (width, height), (0, height)]) - 0.5
    for chosen, colour, line in ((~red, FRAME, thin), (red, MARK, max(0.8, thin))):
        if chosen.any():
            boxes = [corner[::-1] + box for corner in laid.corners[chosen]]
            axes.add_collection(
                PolyCollection(boxes, facecolor="none", edgecolor=colour, lw=line, clip_on=False)
            )
    if laid.font:
        for (y, x), text, mark in zip(laid.corners, labels, red, strict=False):
            axes.text(
                x + width / 2 - 0.5, y - 0.5, text, fontsize=laid.font, ha="center", va="bottom",
                color=MARK if mark else MUTED,
            )  # fmt: skip


def frame(axes: Any, size: Sequence[int]) -> None:
    """Frame an image of this size, since white pixels are not seen on white."""
    label(axes, Mosaic(np.zeros((size[0], size[1], 1)), np.zeros((1, 2), int), (size[0], size[1]), 0.0, 1.0))


def columns_of(count: int, aspect: float, wide: float = 1.5, across: float = 0.0) -> int:
    """Return a number of columns for a mosaic `wide` times as wide as high, preferring full rows.

    `aspect` is the height of a tile by its width. Tiles of the largest size fill `across` inches, if
    there are as many.
    """
    least = across / (1.1 * _LARGEST * min(1.0, 1 / aspect))
    ideal: float = max(math.sqrt(wide * count * aspect), min(least, count))
    near = range(max(1, int(0.75 * ideal), int(min(least, count))), max(2, int(1.6 * ideal) + 1))
    full = [n for n in near if count % n == 0]
    return min(full or [max(1, round(ideal))], key=lambda n: float(abs(n - ideal)))
