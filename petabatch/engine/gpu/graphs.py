"""CUDA graphs of layer-by-layer steps: branches on parallel streams, captured once and replayed.

Layers of one level do not depend on each other, unless one is reset to the potential of another: each such
branch is launched on a stream of its own, between a common start event and the join of all streams. Neither
order nor timing changes what a layer reads, so no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from petabatch.engine.backend import Operation
from petabatch.kernels.cuda.device import Device
from petabatch.network.gpu_steps import capture
from petabatch.network.graph import Graph
from petabatch.spec.parts import StepContext

_TOGETHER = 32
"""Most steps that one graph makes, about: the host takes longer to launch a graph than a GPU for a kernel."""


class CapturedSteps:
    """Makes the steps of the layers of a lane."""

    def __init__(
        self, device: Device, graph: Graph, levels: Sequence[Sequence[Operation]], alone: bool = True
    ) -> None:
        """Bind the operations of each level, in the order of `graph`.

        Unless the rank is `alone` in its steps, they are launched one by one.
        """
        self._device, self._graph = device, graph
        self._levels = [_branches(graph, *both) for both in zip(graph.order, levels, strict=True)]
        widest = max(map(len, self._levels), default=1)
        self._streams = [device.stream() for _ in range(widest - 1)]
        found = capture(graph, alone)
        self._cycle, self._captured = found.cycle, not found.reason
        self._changing = [layer for layer in graph.network.layers.values() if not layer.steady]
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, Callable[[], None]] = {}

    def __call__(self, ctx: StepContext, last: int) -> Iterator[int]:
        """Make the steps from that of `ctx` to the last one; gives the numbers of those that are reached."""
        step = ctx.step
        while step <= last:
            step += self._advance(replace(ctx, step=step), last - step + 1)
            yield step - 1

    def _advance(self, ctx: StepContext, most: int) -> int:
        """Make one step, or up to that many by one graph; return the number of steps made."""
        kind = self._kind(ctx) if self._captured else None
        if kind is None or kind not in self._seen:
            self._seen.add(kind)  # once without capture, so that no module is loaded during capture
            self._make(ctx)
            return 1
        rounds = min(most, _TOGETHER) // self._cycle
        count = self._cycle << rounds.bit_length() - 1 if rounds else 1  # few sizes, so that graphs are few
        if not self._repeats(ctx, count):
            count = 1
        if (kind, count) not in self._graphs:

            def work() -> None:
                for later in range(count):
                    self._make(replace(ctx, step=ctx.step + later))

            self._graphs[kind, count] = self._device.capture(work)
        self._graphs[kind, count]()
        return count

    def _repeats(self, ctx: StepContext, count: int) -> bool:
        """Return whether `count` steps update and reset the same layers, and their kinds have been seen."""
        steps = [replace(ctx, step=ctx.step + later) for later in range(count)]
        known = all(self._kind(one) in self._seen for one in steps[: self._cycle])
        return known and (not self._changing or len({self._due(one) for one in steps}) == 1)

    def _kind(self, ctx: StepContext) -> Hashable:
        """Return what the launches of a step depend on: places in histories, and what updates or is reset."""
        return ctx.step % self._cycle, self._due(ctx)

    def _due(self, ctx: StepContext) -> Hashable:
        return tuple(
            (layer.due(ctx.step, ctx.display), layer.resets(ctx.step, ctx.display))
            for layer in self._changing
        )

    def _make(self, ctx: StepContext) -> None:
        for first, *others in self._levels:
            begin = self._device.mark() if others else None
            ends = []
            for branch, stream in zip(others, self._streams, strict=False):
                with self._device.on(stream):
                    self._device.follow(begin)
                    for operate in branch:
                        operate(ctx)
                    ends.append(self._device.mark())
            for operate in first:
                operate(ctx)
            for end in ends:
                self._device.follow(end)


def _branches(
    graph: Graph, names: Sequence[str], operations: Sequence[Operation]
) -> Sequence[Sequence[Operation]]:
    """Return the operations of a level, those of layers that are reset to each other in their order."""
    branch = {name: {name} for name in names}
    for name in names:
        joined = branch[name] | branch.get(graph.network.layers[name].reset_to or "", set())
        branch |= dict.fromkeys(joined, joined)
    distinct = {id(one): one for one in branch.values()}.values()
    return [[made for name, made in zip(names, operations, strict=True) if name in one] for one in distinct]
