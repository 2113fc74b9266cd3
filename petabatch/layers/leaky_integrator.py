"""A layer that adds up its input and forgets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.spec.model import Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class LeakyIntegrator(Layer):
    """A = exp(-dt / tau) A + input (`LeakyIntegratorBuffer.cpp:47-57`): a constant input g rests at about
    g tau / dt."""

    graph_safe: ClassVar[bool] = True
    type: Literal["leaky_integrator"] = "leaky_integrator"
    tau: Positive = 100.0
    """Time constant of forgetting, in the unit of `run.dt` (integrationTime)."""

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Forget a part and add the input."""
        keep = previous.dtype.type(math.exp(-ctx.dt / self.tau))
        activity[...] = keep * previous + drive[0]
