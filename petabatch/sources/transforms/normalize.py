"""Normalisation of the pixels of an image."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.rounding import is_flat
from petabatch.sources.transforms.base import Draws, Transform

Method = Literal["mean", "standard", "norm", "range", "petavision"]


class Normalize(Transform):
    """Normalisation over all pixels and channels; constant images become 0, except by `norm`."""

    type: Literal["normalize"] = "normalize"
    method: Method = "standard"
    """`mean`: zero mean. `standard`: zero mean and unit standard deviation. `norm`: unit Euclidean norm.
    `range`: scaled to [0, 1]. `petavision`: `standard` with the roundings of PetaVision, whose sums are made
    one after the other in float32."""

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the normalised pixels."""
        return normalized(pixels, self.method)


def normalized(pixels: np.ndarray, how: str) -> np.ndarray:
    """Return float64 pixels normalised as `Normalize` says, unchanged if `how` is `none`.

    Source: PetaVision's `InputActivityBuffer.cpp:757-870`.
    """
    if how == "none":
        return pixels
    if how == "petavision":
        return petavision(pixels).astype(float)
    if how == "norm":
        norm = np.sqrt(np.square(pixels).sum())
        return np.asarray(pixels / norm) if norm else np.zeros_like(pixels)
    low, high = pixels.min(), pixels.max()
    if is_flat(low, high):
        return np.zeros_like(pixels)
    if how == "mean":
        return np.asarray(pixels - pixels.mean())
    origin, unit = (pixels.mean(), pixels.std()) if how == "standard" else (low, high - low)
    return np.asarray((pixels - origin) / unit)


def petavision(pixels: np.ndarray) -> np.ndarray:
    """Return float32 pixels of zero mean and unit deviation, bit for bit as PetaVision computes them.

    The variance, as mean square minus squared mean, is off by up to 2e-5.
    """
    v = pixels.astype(np.float32)
    count = np.float32(v.size)
    flat = v.ravel()
    # cumsum adds sequentially; sum adds pairwise.
    mean = np.cumsum(flat, dtype=np.float32)[-1] / count
    variance = np.cumsum(flat * flat, dtype=np.float32)[-1] / count - mean * mean
    return np.asarray((v - mean) / np.sqrt(variance)) if variance > 0 else np.zeros_like(v)
