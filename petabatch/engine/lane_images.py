"""The images of input layers in the slices of a lane: their display, and their margins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from petabatch.engine.history import History
from petabatch.engine.images import ImageReader
from petabatch.network.plan import Plan
from petabatch.spec.parts import StepContext
from petabatch.variable import Array

if TYPE_CHECKING:
    from petabatch.engine.backend import Backend


class ImageMargin:
    """The images of a lane with their margins, read again when they are not kept."""

    def __init__(self, images: ImageReader, slices: range, ctx: StepContext, dtype: str) -> None:
        self._images, self._slices, self._ctx, self._dtype = images, slices, ctx, dtype
        self._seen: dict[int, Array] = {}

    def forget(self) -> None:
        """Read all again."""
        self._seen.clear()

    def at(self, step: int) -> Array:
        """Return the images with their margins as shown at the end of `step`, `[lanes, ...]`."""
        item = self._images.layer.shown(step, self._ctx.display)
        if item not in self._seen:
            for old in list(self._seen)[:-1]:  # a delay looks at the image before
                del self._seen[old]
            images = [self._images.around(number, item) for number in self._slices]
            self._seen[item] = self._ctx.xp.asarray(np.stack(images), self._dtype)
        return self._seen[item]


def image_margins(
    plan: Plan, readers: Mapping[str, ImageReader], slices: range, ctx: StepContext
) -> dict[str, ImageMargin]:
    """Return the margins of the layers whose border is their image, for the slices of a lane."""
    run, layers = plan.graph.network.run, plan.graph.network.layers
    return {
        name: ImageMargin(reader, slices if layers[name].batch is None else slices[:1], ctx, run.precision)
        for name, reader in readers.items()
        if reader.layer.border == "image"
    }


class LaneImages:
    """The display of images in the slices of a lane."""

    def __init__(
        self,
        plan: Plan,
        readers: Mapping[str, ImageReader],
        histories: Mapping[str, History],
        slices: range,
        backend: Backend,
    ) -> None:
        self._inputs, self._display = plan.inputs, plan.graph.network.run.display
        seen = plan.graph.upstream_of_controlled
        self._seen = [layer for name, layer in plan.inputs.items() if seen is None or name in seen]
        self._readers, self._histories, self._slices, self._backend = readers, histories, slices, backend

    def new_at(self, step: int) -> bool:
        """Return whether an image is new at `step`."""
        return any(layer.item(step, self._display) is not None for layer in self._inputs.values())

    def fresh_at(self, step: int) -> bool:
        """Return whether an image is new that layers with a time scale see."""
        return any(layer.item(step, self._display) is not None for layer in self._seen)

    def show(self, step: int) -> None:
        """Show the images that are new at `step`."""
        for name, layer in self._inputs.items():
            item = layer.item(step, self._display)
            if item is not None:
                self._backend.show(name, self._slices, item, self._histories[name].at(step))

    def begin(self, step: int) -> list[int]:
        """Return the lanes whose layers are reset before `step`, since a film begins."""
        lanes: set[int] = set()
        for name, layer in self._inputs.items():
            item = layer.item(step, self._display)
            if item is not None:
                begins = self._readers[name].begins
                lanes.update(lane for lane, number in enumerate(self._slices) if begins(number, item))
        return sorted(lanes)
