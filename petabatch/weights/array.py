"""Weights handed over in Python."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.sources.memory import Data
from petabatch.spec.weights import Initial
from petabatch.weights.fit import fit


class WeightArray(Initial):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`, or without leading axes of length 1."""

    type: Literal["array"] = "array"
    data: Data
    """The array; from Python only."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return them; raises InputError when they do not fit."""
        return fit(self.data.array, shape, "data")
