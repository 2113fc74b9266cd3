"""Unit maximum."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.variable import Array
from petabatch.weights.scaling import Scaling


class Max(Scaling):
    """The largest weight of each unit becomes `strength`: W = strength W / max W (`NormalizeMax.cpp:99-131`).

    Units without a positive weight are left alone.
    """

    type: Literal["max"] = "max"

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the largest weight of each unit, or 0."""
        return xp.maximum(weights.max(axis=self.axes, keepdims=True), 0).astype(float)
