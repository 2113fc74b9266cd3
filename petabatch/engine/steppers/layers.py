"""The stepper of any network: layer by layer, level by level, on all slices of a lane at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from petabatch.engine.state import owned
from petabatch.engine.steppers.base import Binding, Stepper
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import StepContext
from petabatch.variable import Array


class LayerStepper(Stepper):
    """Makes each step of each layer by its own `update`, which is the reference of all other steppers."""

    def __init__(self, bound: Binding) -> None:
        super().__init__(bound, StepProbes.none())
        levels = [[layer_operation(bound, name) for name in level] for level in bound.plan.graph.order]
        self._operations = bound.backend.operations(bound.plan.graph, levels)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; no recordings are made."""
        for step in range(first + 1, last + 1):
            ctx = replace(self.bound.ctx, step=step)
            for operate in self._operations:
                operate(ctx)
            self.reached = step
        return np.zeros((last - first, len(self.bound.ctx.slices), 0))


def layer_operation(bound: Binding, name: str) -> Callable[[StepContext], None]:
    """Return what gathers a layer's input and updates it, in the interpreter."""
    signals, layer = bound.signals, bound.plan.graph.network.layers[name]
    state = owned(bound.arrays, f"layers/{name}")
    history, drive = signals.histories[name], signals.drive(name)

    key = f"layers.{name}"

    def operate(ctx: StepContext) -> None:
        if not layer.due(ctx.step, ctx.display):
            history.stand(ctx.step)
            return
        arrived = drive(ctx.step)
        if layer.resets(ctx.step, ctx.display):
            layer.restart(state, signals.reset_potential(layer.reset_to, name, ctx.step))
        previous, activity = history.at(ctx.step - 1), history.at(ctx.step)
        with calling(layer, key, ctx.step):
            layer.update(replace(ctx, layer=name), state, arrived, previous, activity)

    return operate
