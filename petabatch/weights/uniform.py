"""Uniformly distributed weights, some of them zero."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.model import Finite, Fraction
from petabatch.spec.weights import Initial


class Uniform(Initial):
    """Independent weights, equally likely from `low` to `high` (`InitUniformRandomWeights.cpp:59-101`).

    With `low = high` it is a constant.
    """

    type: Literal["uniform"] = "uniform"
    low: Finite = 0.0
    high: Finite = 1.0
    sparsity: Fraction = 0.0
    """Each weight is zero with this probability."""

    @model_validator(mode="after")
    def _ordered(self) -> Uniform:
        if self.low > self.high:
            raise PydanticCustomError(
                "uniform", "`low` is above `high`", {"got": f"low {self.low}, high {self.high}"}
            )
        return self

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draw them: values first, then which of them are zero."""
        values = rng.uniform(self.low, self.high, shape)
        if self.sparsity:
            values[rng.random(shape) < self.sparsity] = 0.0
        return values
