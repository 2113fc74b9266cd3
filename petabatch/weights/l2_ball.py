"""At most unit length."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.variable import Array
from petabatch.weights.scaling import Scaling


class L2Ball(Scaling):
    """Units longer than `strength` are shortened to it, the others stay.

    The constraint of Mairal et al. 2010, "Online learning for matrix factorization and sparse coding".
    """

    type: Literal["l2_ball"] = "l2_ball"

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the length of each unit, but at least `strength`."""
        length = xp.sqrt(xp.square(weights, dtype=float).sum(axis=self.axes, keepdims=True))
        return xp.maximum(length, self.strength)
