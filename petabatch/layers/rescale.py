"""Normalisation layer: range, mean and deviation, length, or softmax of the input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from petabatch.rounding import is_flat
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Rescale(Layer):
    """Normalised input, over a whole slice or over the features of each position.

    An input that is constant but for rounding gives `low` with method `range`, `mean` with `standard`; a zero
    input stays 0 with `length`. Corresponds to PetaVision's RescaleLayer.
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["rescale"] = "rescale"
    method: Literal["range", "standard", "length", "softmax"]
    """`range`: scale linearly to [`low`, `high`]. `standard`: give mean `mean` and population standard
    deviation `std`. `length`: scale to the L2 norm `norm`. `softmax`: exp(x) / sum exp(x)."""
    over: Literal["slice", "features"] = "slice"
    """Normalise over all units of a slice, or over the features of each position separately."""
    low: Finite = -1.0
    """Lower bound, for `range`."""
    high: Finite = 1.0
    """Upper bound, for `range`."""
    mean: Finite = 0.0
    """Mean, for `standard`."""
    std: Positive = 1.0
    """Population standard deviation, for `standard`."""
    norm: Positive = 1.0
    """L2 norm, for `length`."""

    @property
    def silent(self) -> bool:
        """With `length`, which leaves 0 as it is."""
        return self.method == "length"

    @property
    def unused(self) -> Mapping[str, str]:
        """Bounds are those of `range`, mean and deviation those of `standard`, the norm that of `length`."""
        of = {"low": "range", "high": "range", "mean": "standard", "std": "standard", "norm": "length"}
        given = [key for key in of if getattr(self, key) != type(self).model_fields[key].default]
        return {key: f'with method = "{self.method}"' for key in given if of[key] != self.method}

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        together = math.prod(self.shape) if self.over == "slice" else self.shape[2]
        numbers = {
            "low": self.low,
            "high": self.high,
            "mean": self.mean,
            "std": self.norm if self.method == "length" else self.std,
            "together": float(together),
        }
        return CompiledRule(f"rescale_{self.method}", numbers)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Normalise the input."""
        axes = (1, 2, 3) if self.over == "slice" else (3,)
        activity[...] = getattr(self, f"_{self.method}")(drive[0], axes, ctx.xp)

    def _range(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        low, high = x.min(axis=axes, keepdims=True), x.max(axis=axes, keepdims=True)
        flat = is_flat(low, high, xp)
        scaled = self.low + (self.high - self.low) * (x - low) / xp.where(flat, 1, high - low)
        return xp.where(flat, x.dtype.type(self.low), scaled)

    def _standard(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        flat = is_flat(x.min(axis=axes, keepdims=True), x.max(axis=axes, keepdims=True), xp)
        centred, size = x - x.mean(axis=axes, keepdims=True), x.std(axis=axes, keepdims=True)
        scaled = self.mean + self.std * centred / xp.where(flat, 1, size)
        return xp.where(flat, x.dtype.type(self.mean), scaled)

    def _length(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        size = xp.sqrt(xp.square(x).sum(axis=axes, keepdims=True))
        return self.norm * x / xp.where(size > 0, size, 1)

    def _softmax(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        # Relative to the maximum, so that no exponential overflows.
        weights = xp.exp(x - x.max(axis=axes, keepdims=True))
        return weights / weights.sum(axis=axes, keepdims=True)
