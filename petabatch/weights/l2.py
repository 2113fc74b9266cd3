"""Unit length, the usual normaliser of a dictionary."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.spec.model import Positive
from petabatch.spec.parts import Normalize
from petabatch.variable import Array


class L2(Normalize):
    """W = strength W / |W| for each unit (`NormalizeL2.cpp:100-134`); units of zero length are left alone."""

    type: Literal["l2"] = "l2"
    strength: Positive = 1.0
    """Length of each unit."""
    by: Literal["pre", "post"] = "pre"
    """A unit is the patch of one pre feature, or all that reaches one post feature."""

    def apply(self, weights: Array, xp: Any) -> None:
        """Normalise in place."""
        axes = (-3, -2, -1) if self.by == "pre" else (-6, -5, -4, -3, -2)
        length = xp.sqrt(xp.square(weights, dtype=float).sum(axis=axes, keepdims=True))
        weights *= (self.strength / xp.where(length > 0, length, self.strength)).astype(weights.dtype)
