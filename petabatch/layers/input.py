"""Input layer: images of a source, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from petabatch.clock import Clock, last_fire, next_fire
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.model import OneOf
from petabatch.spec.parts import DISPLAY, ImageLayer, Layer, Source, StepContext
from petabatch.spec.schedule import Schedule
from petabatch.variable import Array


class Input(Layer):
    """A = item p of the source, for each slice, during steps p D + 1 to (p + 1) D, with D the display period.

    Item 0 is already present at step 0. Source: PetaVision's `InputLayerUpdateController.cpp:42-47`.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["input"] = "input"
    source: Annotated[Source, OneOf(Source)]
    """Source of the images."""
    every: Schedule = DISPLAY
    """How long each item is displayed; `never` displays the first one for the whole run."""

    @property
    def static(self) -> bool:
        """The engine reads its images."""
        return True

    @property
    def images(self) -> ImageLayer:
        """This layer."""
        return self

    def item(self, step: int, display: int) -> int | None:
        """Return the index of the item to load before `step`, None if the present one stays."""
        if step == 0:
            return 0
        if not self.due(step, display):
            return None
        return max(0, Clock(self.every.steps(display)).item(step - self.offset))

    def shown(self, step: int, display: int) -> int:
        """Return the index of the item displayed at the end of `step`."""
        period = self.every.steps(display)
        last = last_fire(period, step, 1 + self.offset) if period else 0
        return (self.item(last, display) or 0) if last > 0 else 0

    def next_change(self, step: int, display: int) -> int | None:
        """Return the first step after `step` that starts with a new item, None if there is none."""
        return next_fire(self.every.steps(display), step, 1 + self.offset)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Do nothing: the engine has already written a new image to `activity` where one is due."""
