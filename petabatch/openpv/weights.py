"""Weights in PetaVision's layout."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.memory import Data
from petabatch.spec.weights import Initial


class Given(Initial):
    """Weights given in Python, in the layout of PetaVision's files."""

    type: Literal["openpv_weights"] = "openpv_weights"
    data: Data

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the weights; patches of the extended grid are cropped to the units of this connection."""
        given = self.data.array.astype(float)
        if given.size == math.prod(shape):
            return given.reshape(shape)
        features, patch = shape[2], shape[3:]
        side = given.size // (features * math.prod(patch))
        # The grid is extended by the same margin m on all sides: (ky + 2 m)(kx + 2 m) = side.
        for margin in range(1, max(shape[:2])):
            if (shape[0] + 2 * margin) * (shape[1] + 2 * margin) == side:
                grid = given.reshape(shape[0] + 2 * margin, shape[1] + 2 * margin, features, *patch)
                return grid[margin:-margin, margin:-margin]
        raise InputError(
            f"these weights do not fit the network\n    found:    {list(given.shape)}\n"
            f"    expected: {list(shape[2:])}: features, patch rows and columns, channels"
            + f", for each of {shape[0]} x {shape[1]} units"
            * (shape[:2] != (1, 1))
        )
