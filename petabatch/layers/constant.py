"""A layer whose activity never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.spec.model import Finite
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Constant(Layer):
    """A = value everywhere, from step 0 on."""

    graph_safe: ClassVar[bool] = True
    type: Literal["constant"] = "constant"
    value: Finite = 0.0
    """The activity."""

    @property
    def static(self) -> bool:
        """Its activity never changes."""
        return True

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
