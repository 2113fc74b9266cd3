"""A lane: a range of slices that runs from one sync event to the next on its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from petabatch.engine.gpu.arrays import Resident
from petabatch.engine.gpu.context import OnGpu
from petabatch.engine.gpu.graphs import Operation, Steps
from petabatch.engine.images import ImageMargin, ImageReader
from petabatch.engine.observer import Observer
from petabatch.engine.recorder import Recorder
from petabatch.engine.signals import Signals
from petabatch.engine.split import Split
from petabatch.engine.state import State, owned, refresh
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.lazy import LazyStepper, fuse
from petabatch.engine.weight_update import change, normalise
from petabatch.errors import NonFiniteError
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu.operators import CpuKernels
from petabatch.layers import LCA
from petabatch.network.plan import Plan
from petabatch.network.until import EarlyStop
from petabatch.spec.parts import StepContext
from petabatch.variable import host


class Lane:
    """Binds a plan to the arrays of local slices `lanes`; `run` advances them."""

    def __init__(
        self,
        plan: Plan,
        state: State | Resident,
        lanes: slice,
        recorder: Recorder,
        readers: Mapping[str, ImageReader],
        gpu: OnGpu | None = None,
        split: Split | None = None,
    ) -> None:
        network = plan.graph.network
        self.gpu = gpu
        self.plan, self.lanes, self.recorder, self.readers = plan, lanes, recorder, readers
        fast = state.xp is np and network.run.kernel != "array"
        self.kernels = CpuKernels(np) if fast else ArrayKernels(state.xp)
        self.arrays = state.lane(lanes)
        slices = range(state.lo + lanes.start, state.lo + lanes.stop)
        run = network.run
        self.ctx = StepContext(0, run.dt, slices, run.seed, state.xp, run.display)
        margins = {
            name: ImageMargin(readers[name], self.ctx, run.precision)
            for name, layer in plan.inputs.items()
            if layer.border == "image"
        }
        self.signals = Signals(plan.graph, self.kernels, self.arrays, margins, split)
        self.histories = self.signals.histories
        self.layer_state = {name: owned(self.arrays, f"layers/{name}") for name in network.layers}
        self.controllers = {
            name: layer.time_scale
            for name, layer in network.layers.items()
            if isinstance(layer, LCA) and layer.time_scale is not None
        }
        assert run.until is None or len(slices) == 1  # each slice rests by itself
        self.rest = None if run.until is None else EarlyStop(run.until, run.display, self.arrays)
        if split is not None:
            self.fused = None  # parts of the features meet in the middle of the loop
        else:
            self.fused = fuse(plan, self.arrays) if gpu is None else gpu.fuse(plan, self.arrays)
        if isinstance(self.fused, DenseStepper) and self.fused.followed is not None:
            self.controllers = {}
        outlet = None if gpu is None else gpu.outlet
        self.observer = Observer(plan, self.signals, self.fused, recorder, lanes, split, outlet)
        levels = [[self._layer(name) for name in level] for level in plan.graph.order if self.fused is None]
        self.operations = [operate for level in levels for operate in level]
        if gpu is not None and levels:
            self.operations = [Steps(gpu.device, plan.graph, levels)]
        self.reached = 0
        """The step that was last made: what tells a slow lane from one that hangs."""

    def run(self, first: int, last: int) -> None:
        """Make steps first+1 .. last, with everything that happens in them."""
        # What overflows is reported by name at the end, not as a warning of numpy's.
        with np.errstate(over="ignore", invalid="ignore"):
            self._run(first, last)

    def _run(self, first: int, last: int) -> None:
        step = first
        if self.fused is not None:
            self.fused.load_weights()
        while step < last:
            self._show(step + 1)
            stop = self.plan.next_event(step, last, self.observer.watched)
            if self.rest is None:
                self._steps(step, stop)
            elif self.rest.begins(step + 1):
                self._stand(step, stop)
            else:
                self._steps(step, stop)
                self.rest.made(step, stop, partial(self.observer.gap, stop))
            step = stop
            self._learn(step)
            self.record(step)
        self._check(step)
        if step == self.plan.length:
            self.show()

    def show(self) -> None:
        """Bring the arrays up to date of which the loop needs less than others may want to see."""
        self.observer.show()

    def record(self, step: int) -> None:
        """Write what is due at the end of `step` to the recorder."""
        self.observer.record(step)

    def _layer(self, name: str) -> Operation:
        """Return the operation that gathers a layer's input and updates it."""
        layer = self.plan.graph.network.layers[name]
        state = self.layer_state[name]
        history = self.histories[name]
        drive = self.signals.drive(name)

        def operate(ctx: StepContext) -> None:
            if not layer.due(ctx.step, ctx.display):
                history.stand(ctx.step)
                return
            arrived = drive(ctx.step)
            if layer.resets(ctx.step, ctx.display):
                layer.restart(state, self.signals.reset_potential(layer.reset_to, name, ctx.step))
            layer.update(
                replace(ctx, layer=name), state, arrived, history.at(ctx.step - 1), history.at(ctx.step)
            )

        return operate

    def _show(self, step: int) -> None:
        """Read the images that are new at the beginning of `step`."""
        display = self.plan.graph.network.run.display
        for name, layer in self.plan.inputs.items():
            item = layer.item(step, display)
            if item is None:
                continue
            activity = self.histories[name].at(step)
            if self.gpu is not None:
                self.gpu.feed.fill(name, self.ctx.slices, item, activity)
                continue
            for index, number in enumerate(self.ctx.slices):
                activity[index] = self.kernels.xp.asarray(self.readers[name](number, item))

    def _steps(self, first: int, last: int) -> None:
        if self.fused is not None and not self.controllers:
            self._fused_steps(first, last)
            self.reached = last
            return
        for step in range(first + 1, last + 1):
            self._control(step)
            if self.fused is not None:
                self._fused_steps(step - 1, step)
            else:
                ctx = replace(self.ctx, step=step)
                for operate in self.operations:
                    operate(ctx)
            self.reached = step

    def _stand(self, first: int, last: int) -> None:
        """Let steps first+1 .. last be like `first`."""
        for history in self.histories.values():
            for step in range(first + 1, min(last, first + history.length) + 1):
                history.stand(step)
        if isinstance(self.fused, DenseStepper):
            sums = np.tile(self.fused.sums(), (last - first, 1, 1))
            self.fused.watch.write(self.recorder, self.lanes, first, last, sums)

    def _fused_steps(self, first: int, last: int) -> None:
        assert self.fused is not None
        sums = self.fused.run(first, last, self._fresh(first + 1))
        self.fused.watch.write(self.recorder, self.lanes, first, last, sums)

    def _fresh(self, step: int) -> bool:
        """Say whether an image is new at `step`."""
        display = self.plan.graph.network.run.display
        return any(layer.item(step, display) is not None for layer in self.plan.inputs.values())

    def _control(self, step: int) -> None:
        """Let adaptive time scales see the energy of the step before, or -1 when an image is new."""
        for name, controller in self.controllers.items():
            if self._fresh(step):
                energy = np.full(len(self.ctx.slices), -1.0)
            else:
                energy = host(self.observer.measure(controller.energy, step - 1)["total"])
            controller.control(self.layer_state[name], energy)

    def _learn(self, step: int) -> None:
        """Compute what updates that are due need of each slice; make them where nothing crosses slices."""
        graph, changed = self.plan.graph, set()
        due = [schedule for schedule in self.plan.weight_updates if schedule.due(step)]
        for schedule in due:
            self.signals.product(schedule.name, step, self.fused)
        if due and isinstance(self.fused, LazyStepper):
            self.fused.settle()
        for schedule in due:
            if not schedule.reduced:
                mine, slices = self.signals.learning[schedule.name], self.ctx.slices
                change(graph, schedule.name, mine, mine, schedule.update(step), 1, slices, self.ctx.xp)
                changed.add(schedule.name)
        if changed:
            for name in normalise(graph, self.arrays, self.ctx.xp, changed):
                refresh(graph, self.arrays, self.kernels, name)
            if self.fused is not None:
                self.fused.load_weights()

    def _check(self, step: int) -> None:
        """Raise NonFiniteError when a layer holds a NaN or an infinity."""
        for name, history in self.histories.items():
            activity = history.at(step)
            # Squares that sum up to a number are quicker to find than numbers that all are.
            if self.gpu is None and np.isfinite(np.vdot(activity, activity)):
                continue
            if not bool(self.kernels.xp.isfinite(activity).all()):
                index = next(i for i in range(len(activity)) if not np.isfinite(host(activity[i])).all())
                raise NonFiniteError(
                    f"layer {name} of slice {self.ctx.slices[index]} is no longer finite at step {step}; "
                    "the step may be too large for these weights (lower run.dt or raise tau)"
                )
