"""Lanes of a window that make their steps together: what they share, and where their numbers differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petabatch.engine.deliveries import Deliveries
from petabatch.engine.steppers.base import Binding
from petabatch.frozen import changed
from petabatch.geometry import Patches
from petabatch.network.graph import Edge
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


@dataclass(frozen=True)
class Part:
    """Lanes in which a layer has the same numbers."""

    layer: Layer
    ctx: StepContext | None = None
    """With the slices, the seed and the dt of these lanes; None where they are those of the step."""
    where: slice | None = None
    """Their place in the arrays; None for all of them."""

    def cut(self, array: Array) -> Array:
        """Return what belongs to these lanes; what all slices have in common is held once."""
        return array if self.where is None or len(array) == 1 else array[self.where]

    def of(self, state: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the variables of these lanes."""
        return state if self.where is None else {name: array[self.where] for name, array in state.items()}

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        before: Array,
        after: Array,
    ) -> None:
        """Make the update of the layer in these lanes."""
        own = ctx if self.ctx is None else changed(self.ctx, step=ctx.step, tile=ctx.tile)
        self.layer.update(own, state, drive, before, after)


def parts_of(bindings: Sequence[Binding], name: str) -> Sequence[Part]:
    """Return the parts of lanes that follow each other in which a layer has the same numbers."""
    found: list[tuple[Any, list[Binding]]] = []
    for bound in bindings:
        layer, ctx = bound.plan.graph.network.layers[name], bound.ctx
        # Seeds matter where an update draws random numbers, which that of a plug-in may do.
        seed = None if layer.graph_safe and not layer.host_numbers else ctx.seed
        key = layer, ctx.dt, seed
        if found and found[-1][0] == key:
            found[-1][1].append(bound)
        else:
            found.append((key, [bound]))
    parts, begin = [], 0
    for (layer, _, _), alike in found:
        slices = tuple(number for bound in alike for number in bound.ctx.slices)
        ctx = replace(alike[0].ctx, slices=slices, layer=name)
        where = slice(begin, begin + len(slices)) if len(found) > 1 else None
        parts.append(Part(layer, ctx, where))
        begin += len(slices)
    return parts


def joined_arrays(bindings: Sequence[Binding], window: slice) -> Mapping[str, Array]:
    """Return the arrays of all lanes of a window."""
    return bindings[0].backend.arrays.lane(window)


def joined_deliveries(bindings: Sequence[Binding], arrays: Mapping[str, Array]) -> Deliveries:
    """Return the deliveries of all lanes, with the strengths of each: a factor is a number, or an array."""
    first = bindings[0]
    if len(bindings) == 1:
        return first.deliveries
    graph, xp = first.plan.graph, first.ctx.xp
    counts = [len(bound.ctx.slices) for bound in bindings]
    edges: dict[str, tuple[Edge, ...]] = {}
    for post, incoming in graph.edges.items():
        found = []
        for at, edge in enumerate(incoming):
            factors = [bound.plan.graph.edges[post][at].factor for bound in bindings]
            if len(set(factors)) > 1:
                dtype = arrays[f"layers/{post}/A"].dtype
                each = np.repeat(factors, counts).astype(dtype).reshape(-1, 1, 1, 1)
                edge = replace(edge, factor=xp.asarray(each))
            found.append(edge)
        edges[post] = tuple(found)
    margins = first.deliveries.margins
    apart = {
        edge.name
        for incoming in graph.edges.values()
        for edge in incoming
        if edge.connection.pre in margins
        or len({bound.plan.graph.border(edge.connection.pre) for bound in bindings}) > 1
    }
    return _JoinedDeliveries(bindings, apart, replace(graph, edges=edges), arrays)


class _JoinedDeliveries(Deliveries):
    """Deliveries of several lanes, some of which arrive lane by lane."""

    def __init__(
        self, bindings: Sequence[Binding], apart: set[str], graph: Any, arrays: Mapping[str, Array]
    ) -> None:
        """`apart` are the connections that see something else beyond the edge in each lane."""
        first = bindings[0].deliveries
        super().__init__(graph, first.kernels, arrays, first.margins, first.features)
        self._bindings, self._apart = bindings, apart

    def columns(self, edge: Edge) -> tuple[Patches, Callable[[int], Array]] | None:
        """Return the patches whose sum is all that an edge delivers, in all lanes; None if there is more."""
        return None if edge.name in self._apart else super().columns(edge)

    def arrival(self, edge: Edge) -> Callable[[int], Array]:
        """Return the function of the step that gives what an edge delivers in all lanes."""
        if edge.name not in self._apart:
            return super().arrival(edge)
        each = [(bound.deliveries.arrival(edge), len(bound.ctx.slices)) for bound in self._bindings]
        xp = self.kernels.xp

        def arrival(step: int) -> Array:
            found = [(arrive(step), slices) for arrive, slices in each]
            return xp.concatenate([xp.broadcast_to(one, (n, *one.shape[1:])) for one, n in found])

        return arrival


@contextmanager
def standing(bound: Binding, window: slice, moving: Sequence[slice]) -> Iterator[None]:
    """Keep the state of all slices of a window as it is within the block, but for those that move."""
    moves = np.zeros(window.stop - window.start, bool)
    for lanes in moving:
        moves[lanes.start - window.start : lanes.stop - window.start] = True
    if moves.all():
        yield
        return
    stands, arrays = bound.ctx.xp.asarray(np.flatnonzero(~moves)), bound.backend.arrays.lane(window)
    keys = [
        key
        for key, one in bound.plan.variables.items()
        if one.per == "slice" and (key.startswith("layers/") or key.endswith("/pending"))
    ]
    kept = {key: arrays[key][stands] for key in keys}
    try:
        yield
    finally:
        for key, values in kept.items():
            arrays[key][stands] = values
