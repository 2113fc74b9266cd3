"""Unit length, the usual normaliser of a dictionary."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.variable import Array
from petabatch.weights.scaling import Scaling


class L2(Scaling):
    """Each unit gets the length `strength`: W = strength W / sqrt(sum W^2) (`NormalizeL2.cpp:100-134`)."""

    type: Literal["l2"] = "l2"

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the length of each unit."""
        return xp.sqrt(xp.square(weights, dtype=float).sum(axis=self.axes, keepdims=True))
