"""Weights that fall off from the centre of the patch."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.spec.model import Finite, Positive
from petabatch.spec.weights import Initial
from petabatch.weights.grid import turned


class Gaussian2D(Initial):
    """W = strength exp(-(u^2 + aspect^2 v^2) / (2 sigma^2)) at distance u along and v across a direction.

    Distances are counted in post units from the centre of the patch. The directions of the pre features lie
    evenly in half a turn, that of feature 0 along the columns; all post features get the same. (Gauss2DWeight
    of the original without flanks, which counts distances in pre units.)
    """

    type: Literal["gaussian_2d"] = "gaussian_2d"
    sigma: Positive = 1.0
    """Standard deviation along the direction, in post units."""
    aspect: Positive = 1.0
    """How much narrower it is across; 1 is round."""
    strength: Finite = 1.0
    """Weight at the centre."""
    reach: Positive | None = None
    """Weights further from the centre than this are 0."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Compute them; nothing is random."""
        features, rows, columns, _ = shape[-4:]
        patches = np.stack([self._patch(rows, columns, np.pi * f / features) for f in range(features)])
        return np.broadcast_to(patches[..., None], shape).copy()

    def _patch(self, rows: int, columns: int, angle: float) -> np.ndarray:
        u, v = turned(rows, columns, angle)
        patch = self.strength * np.exp(-(u**2 + (self.aspect * v) ** 2) / (2 * self.sigma**2))
        return patch if self.reach is None else np.where(np.hypot(u, v) <= self.reach, patch, 0.0)
