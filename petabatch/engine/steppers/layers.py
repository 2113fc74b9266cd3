"""The stepper of any network: layer by layer, level by level, on all slices of a window at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from petabatch.engine.backend import Operation, Peers, Steps
from petabatch.engine.failure import OF_A_SLICE
from petabatch.engine.history import History
from petabatch.engine.state import owned
from petabatch.engine.steppers.base import Binding, Stepper
from petabatch.engine.steppers.failing import Fails, fails_alone
from petabatch.engine.steppers.joined import Part, joined_arrays, joined_deliveries, parts_of, standing
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.engine.steppers.unit_update import InputSum, UnitUpdate, unit_update
from petabatch.frozen import changed
from petabatch.network.graph import Graph
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import StepContext, Tile
from petabatch.variable import Array


class LayerStepper(Stepper):
    """Makes each step of each layer by its own `update`, which is the reference of all other steppers.

    Lanes of a window make their steps together: what is the same in all of them once, the update of a layer
    once for each value of its numbers.
    """

    def __init__(self, bound: Binding) -> None:
        super().__init__(bound, StepProbes.none())
        self._peers = bound.backend.peers(bound.lanes)
        self._steps = _steps([bound], bound.arrays, self.fail) if self._peers is None else None

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
            assert self._steps is not None
            self._make(self._steps, first, last)
        else:
            lanes = [one.bound.lanes for one in steppers]
            with standing(self.bound, self._peers.window, lanes):
                self._make(_steps_of(self._peers), first, last)
        for one in steppers:
            one.reached = last
        slices = sum(len(one.bound.ctx.slices) for one in steppers)
        return np.zeros((last - first, slices, 0))

    def _make(self, steps: Steps, first: int, last: int) -> None:
        for reached in steps(changed(self.bound.ctx, step=first + 1), last):
            self.reached = reached


def layer_operation(
    graph: Graph,
    name: str,
    arrays: Mapping[str, Array],
    drive: Callable[[int], Sequence[Array]],
    potential: Callable[[int], Array | None],
    parts: Sequence[Part] = (),
    kernel: UnitUpdate | None = None,
    tile: Tile | None = None,
    fails: Fails | None = None,
    skip: Callable[[int], None] | None = None,
) -> Operation:
    """Return the update of a layer on `arrays` of some slices, from its `drive`.

    In steps without an update, `skip` is called in place of the `drive`.

    It is reset to a `potential`, None for the initial one, and made part by part where slices differ in its
    numbers, or at once by a `kernel`, whose `drive` is what arrives through each connection. It
    is told the `tile` that the arrays are, None for the whole. An error of a single slice is handed to
    `fails`, and the steps go on, whatever the slice holds then: ranks that share it exchange messages up to
    the next event.
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
            if skip is not None:
                skip(ctx.step)
            history.stand(ctx.step)
            return
        arrived = () if layer.static else drive(ctx.step)
        previous, activity = history.at(ctx.step - 1), history.at(ctx.step)
        resets = layer.resets(ctx.step, ctx.display)
        to = potential(ctx.step) if resets else None
        ctx = changed(ctx, layer=name) if tile is None else changed(ctx, layer=name, tile=tile)
        if resets:
            for one, mine in zip(parts, states, strict=True):
                one.layer.restart(mine, None if to is None else one.cut(to))
        if kernel is not None:
            kernel(ctx, state, arrived, previous, activity)
            return
        try:
            for one, mine in zip(parts, states, strict=True):
                with calling(one.layer, f"layers.{name}", ctx.step):
                    one.update(
                        ctx, mine, [one.cut(each) for each in arrived], one.cut(previous), one.cut(activity)
                    )
        except OF_A_SLICE as error:
            if fails is None:
                raise
            fails(error, ctx.step)
            history.stand(ctx.step)

    return operate


def _steps_of(peers: Peers) -> Steps:
    """Return what makes steps of all lanes of a window, as they are bound now."""
    bindings = tuple(peers.bound.values())
    made = peers.made.get("layers")
    if made is None or made[0] != tuple(map(id, bindings)):
        steps = _steps(bindings, joined_arrays(bindings, peers.window))
        made = peers.made["layers"] = tuple(map(id, bindings)), steps, bindings
    found: Steps = made[1]
    return found


def _steps(bindings: Sequence[Binding], arrays: Mapping[str, Array], fails: Fails | None = None) -> Steps:
    """Return what makes steps of lanes that follow each other, on the arrays of all of them."""
    backend, graph = bindings[0].backend, bindings[0].plan.graph
    deliveries, on_gpu = joined_deliveries(bindings, arrays), backend.peers(bindings[0].lanes) is not None

    def operation(name: str) -> Operation:
        parts, tile = parts_of(bindings, name), deliveries.tile(name)
        layer, potential = parts[0].layer, deliveries.potential(name)
        kernel: UnitUpdate | None = None
        drive: Callable[[int], Sequence[Array]]
        told = fails if fails_alone(bindings[0].plan, name) else None
        if not on_gpu or layer.static or layer.batch is not None:
            drive = deliveries.drive(name)
        elif kernel := unit_update(backend.device, parts, deliveries, name):
            drive = kernel.arrived
        else:
            drive = InputSum(backend.device, parts, deliveries, name).drive
        return layer_operation(
            graph, name, arrays, drive, potential, parts, kernel, tile, told, deliveries.skip(name)
        )

    def at_end(make: Callable[[int], None]) -> Operation:
        return lambda ctx: make(ctx.step)

    levels = [[operation(name) for name in level] for level in graph.order]
    return backend.steps(graph, [*levels, *([at_end(make)] for make in deliveries.events())])
