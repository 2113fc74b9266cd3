"""A layer that shows images: one item of its source after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from petabatch.spec.model import OneOf
from petabatch.spec.parts import DISPLAY, ImageLayer, Layer, Source, StepContext
from petabatch.spec.schedule import Schedule, next_fire
from petabatch.variable import Array


class Input(Layer):
    """Shows item p of its source in steps p*D+1 .. (p+1)*D, each slice its own; at step 0 already item 0.

    (`InputLayerUpdateController.cpp:42-47` of the original.) The engine reads items as they fall due.
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["input"] = "input"
    source: Annotated[Source, OneOf(Source)]
    """Where the images come from."""
    every: Schedule = DISPLAY
    """How long one item is shown; `never` shows the first one for the whole run."""

    @property
    def static(self) -> bool:
        """The engine reads its images."""
        return True

    @property
    def images(self) -> ImageLayer:
        """Itself."""
        return self

    def item(self, step: int, display: int) -> int | None:
        """Return the number of the item to be read before `step`, None when the last one stays."""
        if step == 0:
            return 0
        since = step - 1 - self.offset
        return max(0, since // self.every.steps(display)) if self.due(step, display) else None

    def shown(self, step: int, display: int) -> int:
        """Return the number of the item that is seen at the end of `step`."""
        period = self.every.steps(display)
        last = step - (step - 1 - self.offset) % period if period else 0
        return (self.item(last, display) or 0) if last > 0 else 0

    def next_change(self, step: int, display: int) -> int | None:
        """Return the first step after `step` that begins with a new item; None is never."""
        return next_fire(self.every.steps(display), step, 1 + self.offset)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Do nothing: where the layer is due, the engine has put the new image into `activity`."""
