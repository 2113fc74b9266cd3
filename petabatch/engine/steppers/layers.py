"""The stepper of any network: layer by layer, level by level, on all slices of a lane at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from petabatch.engine.history import History
from petabatch.engine.state import owned
from petabatch.engine.steppers.base import Binding, Stepper
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.network.graph import Graph
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import StepContext
from petabatch.variable import Array


class LayerStepper(Stepper):
    """Makes each step of each layer by its own `update`, which is the reference of all other steppers."""

    def __init__(self, bound: Binding) -> None:
        super().__init__(bound, StepProbes.none())
        graph, arrays, signals = bound.plan.graph, bound.arrays, bound.signals
        levels = [
            [layer_operation(graph, name, arrays, signals.drive(name)) for name in level]
            for level in graph.order
        ]
        self._operations = bound.backend.operations(graph, levels)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; no recordings are made."""
        for step in range(first + 1, last + 1):
            ctx = replace(self.bound.ctx, step=step)
            for operate in self._operations:
                operate(ctx)
            self.reached = step
        return np.zeros((last - first, len(self.bound.ctx.slices), 0))


def layer_operation(
    graph: Graph, name: str, arrays: Mapping[str, Array], drive: Callable[[int], Sequence[Array]]
) -> Callable[[StepContext], None]:
    """Return the update of a layer in the interpreter, on `arrays` of some slices, from its `drive`."""
    layer, key = graph.network.layers[name], f"layers.{name}"
    state, history = owned(arrays, f"layers/{name}"), History(arrays[f"layers/{name}/A"])
    potential = _reset_potential(graph, name, arrays)

    def operate(ctx: StepContext) -> None:
        if not layer.due(ctx.step, ctx.display):
            history.stand(ctx.step)
            return
        arrived = drive(ctx.step)
        if layer.resets(ctx.step, ctx.display):
            layer.restart(state, potential(ctx.step))
        previous, activity = history.at(ctx.step - 1), history.at(ctx.step)
        with calling(layer, key, ctx.step):
            layer.update(
                ctx if ctx.layer == name else replace(ctx, layer=name), state, arrived, previous, activity
            )

    return operate


def _reset_potential(graph: Graph, name: str, arrays: Mapping[str, Array]) -> Callable[[int], Array | None]:
    """Return the function of the step that gives the potential to reset to; None is the initial one."""
    source = graph.network.layers[name].reset_to
    if source is None:
        return lambda step: None
    if f"layers/{source}/V" in arrays:
        return lambda step: arrays[f"layers/{source}/V"]
    history, lookback = History(arrays[f"layers/{source}/A"]), graph.reset_lookback(source, name)
    return lambda step: history.at(step - lookback)
