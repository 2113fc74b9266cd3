"""Resizing: antialiased, or as PetaVision interpolates."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Picture, Shape
from petabatch.spec.model import Count


class Resize(Transform):
    """Interpolation to another size; where it shrinks the image, `linear` averages over all its pixels."""

    moves: ClassVar[bool] = True
    costly: ClassVar[bool] = True
    type: Literal["resize"] = "resize"
    size: tuple[Count, Count] | None = None
    """Rows and columns; by default those of the layer."""
    fit: Literal["stretch", "cover", "contain"] = "stretch"
    """`stretch`: exactly this size. `cover`: the smallest size with the proportions of the image that covers
    it, from which a crop may follow. `contain`: the largest one inside, which may be padded."""
    interpolation: Literal["linear", "nearest", "cubic"] = "linear"
    """`linear`: antialiased. `nearest` and `cubic` are PetaVision's, for results of its networks: the corner
    pixels of both images coincide, and pixels between those read are not seen; `cubic` is the convolution of
    4 x 4 pixels with a = -1 (`BufferUtilsRescale.cpp`)."""

    def settled(self, crop: Transform, layer: Shape) -> Transform:
        """Return it with its size."""
        return self.model_copy(update={"size": self.size or layer[:2]})

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the new size."""
        ny, nx = self.size or layer[:2]
        if self.fit != "stretch":
            scales = ny / shape[0], nx / shape[1]
            scale = max(scales) if self.fit == "cover" else min(scales)
            pick = max if self.fit == "cover" else min
            ny = pick(ny, max(1, round(scale * shape[0])))
            nx = pick(nx, max(1, round(scale * shape[1])))
        return ny, nx, shape[2]

    def shows(self, picture: Picture, layer: Shape, draws: Draws) -> Picture:
        """Return the resized image."""
        rows, columns, _ = picture.shape
        ny, nx, nf = self.result(picture.shape, layer)
        axes = picture.axes[0].scaled(rows, ny), picture.axes[1].scaled(columns, nx)

        def resized(pixels: np.ndarray) -> np.ndarray:
            return _along(1, _along(0, pixels, ny, self.interpolation), nx, self.interpolation)

        return picture.then(resized, (ny, nx, nf), axes)

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the pixels: `shows` has the size."""
        return pixels


def _along(axis: int, pixels: np.ndarray, size: int, kind: str) -> np.ndarray:
    """Return the pixels with `size` rows or columns.

    A sum over the taps, without BLAS: its bits depend on no number of threads.
    """
    if pixels.shape[axis] == size:
        return pixels
    places, weights = _TAPS[kind](pixels.shape[axis], size)
    spread = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total = np.zeros([size if a == axis else n for a, n in enumerate(pixels.shape)])
    for tap in range(weights.shape[1]):
        total += weights[:, tap].reshape(spread) * pixels.take(places[:, tap], axis)
    return total


@lru_cache(maxsize=64)
def _linear(found: int, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels that contribute to each new one, and their weights, `[wanted, taps]`.

    The weights are a triangle as wide as two new pixels where the image shrinks, as in linear interpolation
    where it grows; at the edges, the part inside the image is normalised.
    """
    scale = found / wanted
    radius = max(1.0, scale)
    centre = (np.arange(wanted) + 0.5) * scale
    first = np.floor(centre - radius).astype(int)
    at = first[:, None] + np.arange(int(np.ceil(2 * radius)) + 2)
    weights = np.maximum(0.0, 1.0 - abs(at + 0.5 - centre[:, None]) / radius)
    weights[(at < 0) | (at >= found)] = 0.0
    return at.clip(0, found - 1), weights / weights.sum(axis=1, keepdims=True)


@lru_cache(maxsize=64)
def _nearest(found: int, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    return np.rint(_places(found, wanted)).astype(int)[:, None], np.ones((wanted, 1))


@lru_cache(maxsize=64)
def _cubic(found: int, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the four pixels around each new one, those beyond the edge reflected as in PetaVision."""
    places = _places(found, wanted)
    first = np.floor(places)
    at = first.astype(int)[:, None] + np.arange(-1, 3)
    x = abs(places[:, None] - at)
    weights = np.where(x < 1, 1 + x * x * (x - 2), np.where(x < 2, 4 + x * (-8 + x * (5 - x)), 0))
    at = np.where(at < 0, -at, at)
    at = np.where(at >= found, 2 * found - at - 1, at)
    return at.clip(0, found - 1), weights


def _places(found: int, wanted: int) -> np.ndarray:
    """Return where the new pixels are among those found: the first and the last are the same."""
    step = np.float32(found - 1) / np.float32(max(1, wanted - 1))
    return np.asarray(step * np.arange(wanted, dtype=np.float32)).astype(float)


_TAPS = {"linear": _linear, "nearest": _nearest, "cubic": _cubic}
