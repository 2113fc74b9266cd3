"""Oja's rule: Hebbian learning that keeps weights bounded by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from petabatch.spec.model import Finite
from petabatch.spec.weights import Learning
from petabatch.variable import Array, Variable


class Oja(Learning):
    """dW = rate / slices * sum(pre * post - pre^2 W) over positions and slices (Oja 1982).

    Each pre unit's weights are drawn towards the average of what it is active with; `input` is that layer,
    usually the image. (Against an error layer, `hebbian` is the rule for several units that compete.)
    """

    type: Literal["oja"] = "oja"
    input: str | None = None
    """Layer multiplied with the pre layer, shaped like the post layer; by default the post layer itself."""
    rate: Finite = 0.01

    @property
    def against(self) -> str | None:
        """The input layer."""
        return self.input

    @property
    def counted(self) -> bool:
        """The sum of pre^2 is needed."""
        return True

    def tally(self, pre: Array) -> Array:
        """Sum the squared activity."""
        return pre * pre

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """There is no state."""
        return ()

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
        weights += (self.rate / slices * (product - counts * weights)).astype(weights.dtype)
