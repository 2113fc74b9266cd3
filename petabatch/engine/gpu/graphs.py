"""CUDA graphs of layer-by-layer steps: branches on parallel streams, captured once and replayed.

Layers of one level do not depend on each other: each is launched on a stream of its own, between a common
start event and the join of all streams. Neither order nor timing changes what a layer reads, so no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from petabatch.engine.backend import Operation
from petabatch.kernels.cuda.device import Device
from petabatch.network.graph import Graph
from petabatch.spec.parts import Layer, StepContext

_LONGEST = 64
"""Maximum period, in steps, of the histories' ring buffers for which steps are captured."""


class CapturedSteps:
    """Makes the steps of the layers of a lane."""

    def __init__(self, device: Device, graph: Graph, levels: Sequence[Sequence[Operation]]) -> None:
        """Bind the operations of each level, in the order of `graph`."""
        self._device, self._graph, self._levels = device, graph, levels
        widest = max(map(len, levels), default=1)
        self._streams = [device.stream() for _ in range(widest - 1)]
        self._period = (
            math.lcm(*graph.depth.values()) if all(map(_alike, graph.network.layers.values())) else 0
        )
        self._stretches: dict[Hashable, Callable[[], None] | None] = {}

    def __call__(self, ctx: StepContext) -> None:
        """Make one step."""
        if not 0 < self._period <= _LONGEST:
            self._make(ctx)
            return
        kind = self._kind(ctx)
        if (
            kind not in self._stretches
        ):  # run once without capture, so that no module is loaded during capture
            self._stretches[kind] = None
            self._make(ctx)
            return
        again = self._stretches[kind]
        if again is None:
            again = self._stretches[kind] = self._device.capture(lambda: self._make(ctx))
        again()

    def _kind(self, ctx: StepContext) -> Hashable:
        """Return what the launches of a step depend on: places in histories, and what updates or is reset."""
        changing = [layer for layer in self._graph.network.layers.values() if not layer.steady]
        due = tuple(
            (layer.due(ctx.step, ctx.display), layer.resets(ctx.step, ctx.display)) for layer in changing
        )
        return ctx.step % self._period, due

    def _make(self, ctx: StepContext) -> None:
        for first, *others in self._levels:
            begin = self._device.mark() if others else None
            ends = []
            for operate, stream in zip(others, self._streams, strict=False):
                with stream:
                    self._device.follow(begin)
                    operate(ctx)
                    ends.append(self._device.mark())
            first(ctx)
            for end in ends:
                self._device.follow(end)


def _alike(layer: Layer) -> bool:
    """Return whether a layer's update is the same in each step, and no number comes from the host."""
    from_host = layer.host_numbers or layer.border == "image" or layer.controller is not None
    return layer.graph_safe and not from_host
