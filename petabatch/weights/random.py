"""Random and constant initialisation: normally or uniformly distributed weights, or all alike."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.model import LARGEST, Finite, Flag, Fraction, NonNegative, Positive
from petabatch.spec.weights import Initial

_RARE = 1e-3
"""Probability of a value between bounds, at least: others are drawn again."""


class Constant(Initial):
    """Values that are all alike."""

    elsewhere: ClassVar[tuple[str, ...]] = ("ones", "zeros")
    type: Literal["constant"] = "constant"
    value: Finite
    """The value."""
    same_feature: Flag = False
    """Connect equal features alone: weights from one feature to another are 0."""

    @property
    def of_patches(self) -> bool:
        """With `same_feature`."""
        return self.same_feature

    @property
    def limits(self) -> tuple[float, float]:
        """The value, twice."""
        return self.value, self.value

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the value, everywhere, or for equal features."""
        if not self.same_feature:
            return np.full(shape, self.value)
        pre, post = shape[2], shape[-1]
        return np.broadcast_to(self.value * np.eye(pre, post)[:, None, None], shape).copy()


class Gaussian(Initial):
    """Independent, normally distributed weights."""

    elsewhere: ClassVar[tuple[str, ...]] = ("normal", "randn")
    type: Literal["gaussian"] = "gaussian"
    mean: Finite = 0.0
    """Mean of the distribution."""
    std: NonNegative = 1.0
    """Standard deviation of the distribution."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return random weights."""
        return rng.normal(self.mean, self.std, shape)


class TruncatedNormal(Initial):
    """Independent, normally distributed values, drawn again where they are not between `low` and `high`."""

    type: Literal["truncated_normal"] = "truncated_normal"
    mean: Finite = 0.0
    """Mean of the distribution before values are left out."""
    std: Positive = 1.0
    """Its standard deviation."""
    low: Finite
    """Lower bound."""
    high: Finite
    """Upper bound."""

    @model_validator(mode="after")
    def _likely(self) -> TruncatedNormal:
        below, above = (
            math.erf((bound - self.mean) / (self.std * math.sqrt(2))) for bound in (self.low, self.high)
        )
        if (above - below) / 2 < _RARE:
            raise PydanticCustomError(
                "truncated_normal",
                "values between the bounds are too rare",
                {
                    "got": f"mean {self.mean}, std {self.std}, {self.low} to {self.high}",
                    "expected": f"a probability of at least {_RARE}",
                },
            )
        return self

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds."""
        return self.low, self.high

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return random weights."""
        values = np.asarray(rng.normal(self.mean, self.std, shape))
        while (outside := (values < self.low) | (values > self.high)).any():
            values[outside] = rng.normal(self.mean, self.std, np.count_nonzero(outside))
        return values


class Uniform(Initial):
    """Independent weights, uniformly distributed between `low` and `high`; `low = high` gives a constant.

    Source: PetaVision's `InitUniformRandomWeights.cpp:59-101`.
    """

    elsewhere: ClassVar[tuple[str, ...]] = ("rand", "random")
    type: Literal["uniform"] = "uniform"
    low: Finite = 0.0
    """Lower bound."""
    high: Finite = 1.0
    """Upper bound."""
    levels: Annotated[int, Field(strict=True, ge=2, le=LARGEST)] | None = None
    """Number of values, evenly spaced from `low` to `high`, that are drawn; by default all in between."""
    sparsity: Fraction = 0.0
    """Probability with which each weight is set to zero."""

    @model_validator(mode="after")
    def _ordered(self) -> Uniform:
        if self.low > self.high:
            raise PydanticCustomError(
                "uniform",
                "`low` is above `high`",
                {"got": f"low {self.low}, high {self.high}", "expected": "`low` at most as large as `high`"},
            )
        return self

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds, and 0 where values are set to it."""
        return (min(self.low, 0.0), max(self.high, 0.0)) if self.sparsity else (self.low, self.high)

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return random weights: the values are drawn first, then which of them are zero."""
        if self.levels is None:
            values = rng.uniform(self.low, self.high, shape)
        else:
            step = (self.high - self.low) / (self.levels - 1)
            values = np.asarray(self.low + step * rng.integers(self.levels, size=shape), float)
        if self.sparsity:
            values[rng.random(shape) < self.sparsity] = 0.0
        return values
