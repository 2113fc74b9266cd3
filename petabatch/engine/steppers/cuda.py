"""The stepper of a sparse-coding loop on a GPU, on the arrays of all slices of a lane."""

from __future__ import annotations

import numpy as np

from petabatch.engine.steppers.base import Binding, Stepper
from petabatch.engine.steppers.bind import bind_loop, cell_arrays, loop_norms
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.spec.weights import Learning
from petabatch.variable import Array, host


class CudaStepper(Stepper):
    """The loop's steps for the slices of a lane."""

    def __init__(self, bound: Binding) -> None:
        plan, device = bound.plan, bound.backend.device
        self.loop = loop = bind_loop(plan, bound.arrays)
        patches, names, method = loop.patches, plan.method.loop, plan.method
        probes = StepProbes.of(plan, loop_norms(names))
        if method.kernel == "step":
            probes.recordings.clear()  # the display kernel alone sums up its steps
        super().__init__(bound, probes)
        units = cell_arrays(loop.rule, loop.state)
        self._units = units if units.before.size else units._replace(before=units.V)
        lanes = len(loop.state["A"])
        tf32 = plan.graph.network.run.tf32
        self.kernels = LoopKernels(device, patches, loop.cell, float(loop.factor), lanes, method.kernel, tf32)
        self._activity = loop.state["A"]
        self._weights = loop.weights.reshape(len(loop.weights), patches.features, patches.length)
        if loop.rule.adaptive is not None:
            step, age = (loop.state[name] for name in loop.rule.adaptive)
            self._rates = step, age
        else:
            self._rates = device.xp.zeros(lanes, np.float32), device.xp.zeros(lanes, np.float32)

    def load_weights(self) -> None:
        """Take over the weights."""
        self.kernels.load(self._weights)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        self._set_rates()
        watched = self.probes.due(first, last).any()
        sums = self.kernels.sums(last - first) if watched else None
        loop = self.loop
        arrays = (loop.image, loop.recon, loop.error, self._units, self._rates)
        self.kernels.run(*arrays, last - first, sums)
        self.reached = last
        return host(sums) if sums is not None else np.zeros((last - first, self.kernels.lanes, 3))

    def products(
        self,
        step: int,
        connection: str,
        pre: str,
        against: str,
        rule: Learning,
        product: Array,
        counts: Array | None,
    ) -> bool:
        """Write the product of the code with the error; see `Stepper`."""
        loop = self.bound.plan.method.loop
        plain = type(rule).tally is Learning.tally
        if not plain or (connection, pre, against) != (loop.dictionary, loop.code, loop.error):
            return False
        self.kernels.gradient(self._activity, self.loop.error, product, counts)
        return True

    def _set_rates(self) -> None:
        """Set e and 1 - e of each slice, whose time scale the lane has adapted."""
        rule, state = self.loop.rule, self.loop.state
        if rule.adaptive is not None:
            return
        scales = host(state["time_scale"]) if rule.scale is not None else np.ones(1)
        both = [rule.decays(self.loop.dt * float(scale)) for scale in scales]
        for target, column in zip(self._rates, zip(*both, strict=True), strict=True):
            target[...] = self.kernels.device.xp.asarray(column, np.float32)
