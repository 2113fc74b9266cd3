"""A layer whose activity never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from petabatch.spec.model import Finite
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Constant(Layer):
    """A = value everywhere, from step 0 on."""

    type: Literal["constant"] = "constant"
    value: Finite = 0.0
    """The activity."""

    def prepare(self, state: Mapping[str, Array], activity: Array) -> None:
        """Set the value once."""
        activity[...] = self.value

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Carry the value over to the activity of this step."""
        if activity is not previous:
            activity[...] = previous
