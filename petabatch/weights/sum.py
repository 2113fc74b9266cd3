"""Unit sum."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.variable import Array
from petabatch.weights.scaling import Scaling


class Sum(Scaling):
    """Each unit sums to `strength`: W = strength W / sum W (`NormalizeSum.cpp:69`)."""

    type: Literal["sum"] = "sum"

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the sum of each unit."""
        return weights.sum(axis=self.axes, keepdims=True, dtype=float)
