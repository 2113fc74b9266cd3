"""Normally distributed weights."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.spec.model import Finite, NonNegative
from petabatch.spec.weights import Initial


class Gaussian(Initial):
    """Independent normal weights."""

    type: Literal["gaussian"] = "gaussian"
    mean: Finite = 0.0
    deviation: NonNegative = 1.0

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draw them."""
        return rng.normal(self.mean, self.deviation, shape)
