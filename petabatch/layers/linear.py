"""A layer that is the sum of its input: error and reconstruction layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.spec.model import Finite
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Linear(Layer):
    """A = scale * (excitatory - inhibitory input) (`ErrScaleInternalStateBuffer.cpp` of the original)."""

    graph_safe: ClassVar[bool] = True
    type: Literal["linear"] = "linear"
    scale: Finite = 1.0
    """Factor on the summed input."""

    @property
    def sums_input(self) -> bool:
        """It is the sum unless it is scaled."""
        return self.scale == 1

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Publish the input."""
        ctx.xp.multiply(drive[0], self.scale, out=activity)
