"""Oja's rule: Hebbian learning with bounded weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from petabatch.spec.model import Finite
from petabatch.spec.weights import Learning
from petabatch.variable import Array, Variable


class Oja(Learning):
    """dW = rate / slices * sum(pre * post - pre^2 W), summed over positions and slices (Oja 1982).

    The weights of each pre unit converge to the average input with which it is active; set `input` to the
    layer that provides it, usually the image. For several competing units, use `hebbian` with an error layer.
    """

    against_key: ClassVar[str] = "input"
    type: Literal["oja"] = "oja"
    input: str | None = None
    """Layer whose activity is multiplied with that of the pre layer; it must have the shape of the post
    layer, which is the default."""
    rate: Finite = 0.01
    """Learning rate."""

    @property
    def against(self) -> str | None:
        """The input layer."""
        return self.input

    @property
    def counted(self) -> bool:
        """Always true: the rule needs the sum of pre^2."""
        return True

    def tally(self, pre: Array) -> Array:
        """Return the squared activity."""
        return pre * pre

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare no state."""
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
