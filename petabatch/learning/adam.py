"""Adam: adaptive learning rates for each weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from petabatch.learning.averaging import Averaging
from petabatch.spec.model import Finite, Positive
from petabatch.variable import Array, Variable

_Forgetting = Annotated[float, Field(ge=0, lt=1)]


class Adam(Averaging):
    """W += rate * m / (sqrt(v) + epsilon), with m and v running averages of g = average(pre * error) and g^2.

    Adam (Kingma & Ba 2015), with bias correction of both averages. g is minus the gradient of 0.5 |error|^2.
    """

    type: Literal["adam"] = "adam"
    rate: Finite = 0.01
    """Learning rate: approximately the largest change of a weight in one update."""
    beta1: _Forgetting = 0.9
    """Decay rate of m per update."""
    beta2: _Forgetting = 0.999
    """Decay rate of v per update."""
    epsilon: Positive = 1e-8
    """Regulariser of the denominator."""

    @property
    def featurewise(self) -> bool:
        """Each feature learns from its own products."""
        return True

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare the two averages."""
        return (
            replace(weights, name="mean", description="average of the products (m)"),
            replace(weights, name="square", description="average of their squares (v)"),
        )

    def change(
        self,
        weights: Array,
        product: Array,
        counts: Array | None,
        state: Mapping[str, Array],
        update: int,
        slices: int,
        xp: Any,
    ) -> None:
        """Apply one update in place."""
        g = self.averaged(product, counts, slices, xp)
        mean, square = state["mean"], state["square"]
        mean[...] = self.beta1 * mean + (1 - self.beta1) * g
        square[...] = self.beta2 * square + (1 - self.beta2) * g * g
        m = mean / (1 - self.beta1 ** (update + 1))
        v = square / (1 - self.beta2 ** (update + 1))
        weights += (self.rate_at(update) * m / (xp.sqrt(v) + self.epsilon)).astype(weights.dtype)
