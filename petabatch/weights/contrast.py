"""Zero mean and given contrast."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.spec.model import Positive
from petabatch.variable import Array
from petabatch.weights.scaling import Unitwise


class ContrastZeroMean(Unitwise):
    """W = strength (W - mean) / deviation for each unit (`NormalizeContrastZeroMean.cpp:104-178`).

    Flat units are left alone. (The original leaves units alone whose sum is zero, even the normalised ones.)
    """

    type: Literal["contrast_zero_mean"] = "contrast_zero_mean"
    strength: Positive = 1.0
    """Population standard deviation of each unit afterwards."""

    def apply(self, weights: Array, xp: Any) -> None:
        """Normalise in place."""
        flat = weights.max(axis=self.axes, keepdims=True) == weights.min(axis=self.axes, keepdims=True)
        centred = weights - weights.mean(axis=self.axes, keepdims=True, dtype=float)
        deviation = xp.sqrt(xp.square(centred).mean(axis=self.axes, keepdims=True))
        scale = self.strength / xp.where(flat, 1.0, deviation)
        weights[...] = xp.where(flat, weights, scale * centred)
