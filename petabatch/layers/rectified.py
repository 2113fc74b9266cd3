"""A layer that passes its input through a transfer function, without memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.layers.thresholded import Thresholded
from petabatch.spec.model import Finite
from petabatch.spec.parts import StepContext
from petabatch.variable import Array


class Rectified(Thresholded):
    """A = T(excitatory - inhibitory input): by default max(input, 0) (the original's ANNLayer)."""

    graph_safe: ClassVar[bool] = True
    type: Literal["rectified"] = "rectified"
    threshold: Finite = 0.0
    """Inputs below it give `minimum`."""
    transfer: Literal["soft", "hard", "firm"] = "hard"
    """soft: A = V - threshold; hard: A = V; firm: a line from 0 at threshold to V at threshold + width."""

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Apply the transfer function to the input."""
        self.curve(drive[0], activity, ctx.xp)
