"""The stepper of any network: layer by layer, level by level, on all slices of a window at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from petabatch.engine.backend import Operation, Peers
from petabatch.engine.history import History
from petabatch.engine.state import owned
from petabatch.engine.steppers.base import Binding, Stepper
from petabatch.engine.steppers.joined import Part, joined_arrays, joined_signals, parts_of, standing
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.engine.steppers.row_update import RowUpdate, row_update
from petabatch.network.graph import Graph
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import StepContext
from petabatch.variable import Array


class LayerStepper(Stepper):
    """Makes each step of each layer by its own `update`, which is the reference of all other steppers.

    Lanes of a window make their steps together: what is the same in all of them once, the update of a layer
    once for each value of its numbers.
    """

    def __init__(self, bound: Binding) -> None:
        super().__init__(bound, StepProbes.none())
        self._peers = bound.backend.peers(bound.lanes)
        self._operations: Sequence[Operation] = ()
        if self._peers is None:
            self._operations = _operations([bound], bound.arrays)

    @property
    def kind(self) -> Hashable:
        """Lanes of one window; see `Stepper`."""
        return self if self._peers is None else id(self._peers)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; no recordings are made."""
        return self.run_together([self], first, last, new_image)

    def run_together(self, steppers: Sequence[Stepper], first: int, last: int, new_image: bool) -> Array:
        """Make the same steps of several lanes; see `Stepper`."""
        if self._peers is None:
            self._make(self._operations, first, last)
        else:
            lanes = [one.bound.lanes for one in steppers]
            with standing(self.bound, self._peers.window, lanes):
                self._make(_operations_of(self._peers), first, last)
        for one in steppers:
            one.reached = last
        slices = sum(len(one.bound.ctx.slices) for one in steppers)
        return np.zeros((last - first, slices, 0))

    def _make(self, operations: Sequence[Operation], first: int, last: int) -> None:
        for step in range(first + 1, last + 1):
            ctx = replace(self.bound.ctx, step=step)
            for operate in operations:
                operate(ctx)
            self.reached = step


def layer_operation(
    graph: Graph,
    name: str,
    arrays: Mapping[str, Array],
    drive: Callable[[int], Sequence[Array]],
    potential: Callable[[int], Array | None],
    parts: Sequence[Part] = (),
    row: RowUpdate | None = None,
) -> Operation:
    """Return the update of a layer on `arrays` of some slices, from its `drive`.

    It is reset to a `potential`, None for the initial one, and made part by part where slices differ in its
    numbers, or at once by the kernel of its `row`.
    """
    layer = graph.network.layers[name]
    if layer.batch is not None:  # what reaches it from slices changes nothing
        return lambda ctx: None
    parts = parts or [Part(layer)]
    history = History(arrays[f"layers/{name}/A"])
    state = owned(arrays, f"layers/{name}")
    states = [one.of(state) for one in parts]

    def operate(ctx: StepContext) -> None:
        if not layer.due(ctx.step, ctx.display):
            history.stand(ctx.step)
            return
        arrived = () if layer.static else drive(ctx.step)
        previous, activity = history.at(ctx.step - 1), history.at(ctx.step)
        resets = layer.resets(ctx.step, ctx.display)
        to = potential(ctx.step) if resets else None
        ctx = ctx if ctx.layer == name else replace(ctx, layer=name)
        if resets:
            for one, mine in zip(parts, states, strict=True):
                one.layer.restart(mine, None if to is None else one.cut(to))
        if row is not None:
            row(ctx, state, arrived, previous, activity)
            return
        for one, mine in zip(parts, states, strict=True):
            with calling(one.layer, f"layers.{name}", ctx.step):
                one.update(
                    ctx, mine, [one.cut(each) for each in arrived], one.cut(previous), one.cut(activity)
                )

    return operate


def _operations_of(peers: Peers) -> Sequence[Operation]:
    """Return the operations of a step of all lanes of a window, as they are bound now."""
    bindings = tuple(peers.bound.values())
    made = peers.made.get("layers")
    if made is None or made[0] != tuple(map(id, bindings)):
        operations = _operations(bindings, joined_arrays(bindings, peers.window))
        made = peers.made["layers"] = tuple(map(id, bindings)), operations, bindings
    found: Sequence[Operation] = made[1]
    return found


def _operations(bindings: Sequence[Binding], arrays: Mapping[str, Array]) -> Sequence[Operation]:
    """Return the operations of a step of lanes that follow each other, on the arrays of all of them."""
    backend, graph = bindings[0].backend, bindings[0].plan.graph
    signals = joined_signals(bindings, arrays)

    def operation(name: str) -> Operation:
        parts = parts_of(bindings, name)
        row = row_update(bindings, parts, arrays[f"layers/{name}/A"].dtype.name)
        return layer_operation(graph, name, arrays, signals.drive(name), signals.potential(name), parts, row)

    return backend.operations(graph, [[operation(name) for name in level] for level in graph.order])
