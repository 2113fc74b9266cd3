"""A layer that brings its input to a given range, deviation or length, slice by slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from petabatch.spec.model import Finite, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Rescale(Layer):
    """Normalises its input in each step (RescaleLayer of the original); a flat input gives `low`, mean or 0.

    - `range`: from `low` to `high`;  `standard`: mean `mean`, population deviation `deviation`;
    - `length`: sum of squares 1;  `softmax`: exp(x) over its sum.

    `over` says what is normalised together: all of a slice, or the features of each position.
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["rescale"] = "rescale"
    method: Literal["range", "standard", "length", "softmax"]
    over: Literal["slice", "features"] = "slice"
    low: Finite = -1.0
    high: Finite = 1.0
    mean: Finite = 0.0
    deviation: Positive = 1.0

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
        return self.low + (self.high - self.low) * (x - low) / _divisor(high - low, xp)

    def _standard(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        centred = x - x.mean(axis=axes, keepdims=True)
        return self.mean + self.deviation * centred / _divisor(x.std(axis=axes, keepdims=True), xp)

    def _length(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        return x / _divisor(xp.sqrt(xp.square(x).sum(axis=axes, keepdims=True)), xp)

    def _softmax(self, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
        # Relative to the largest, so that no exponential overflows.
        weights = xp.exp(x - x.max(axis=axes, keepdims=True))
        return weights / weights.sum(axis=axes, keepdims=True)


def _divisor(size: Array, xp: Any) -> Array:
    return xp.where(size > 0, size, 1)
