"""A soft step from 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.spec.model import Finite, Flag, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Sigmoid(Layer):
    """A = 1 / (1 + exp(-(input - center) / width)), or a line from 0 to 1.

    (The original's SigmoidLayer with its two potentials as `center` and `width`.)
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["sigmoid"] = "sigmoid"
    center: Finite = 0.0
    """Input at which A = 1/2."""
    width: Positive = 1.0
    """Input that makes the step e times as certain; the slope in the centre is 1 / (4 width)."""
    form: Literal["logistic", "line"] = "logistic"
    """line: the tangent in the centre, cut at 0 and 1."""
    invert: Flag = False
    """A step down: 1 - A."""

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Apply the step to the input."""
        xp = ctx.xp
        x = (drive[0] - self.center) / self.width
        # The logistic function by tanh, which does not overflow.
        step = 0.5 + 0.5 * xp.tanh(x / 2) if self.form == "logistic" else xp.clip(0.5 + x / 4, 0, 1)
        activity[...] = 1 - step if self.invert else step
