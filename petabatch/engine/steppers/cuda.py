"""Runs a sparse-coding loop on a GPU, on the arrays of all slices of a lane."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.engine.state import owned
from petabatch.engine.steppers.bind import numbers, units
from petabatch.engine.steppers.probe_sums import LoopProbes
from petabatch.errors import ResourceError
from petabatch.kernels.cuda.device import Device
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.layers import FISTA, LCA
from petabatch.network.loop import Loop, find_loop
from petabatch.network.plan import Plan
from petabatch.spec.weights import Learning
from petabatch.variable import Array, host


class CudaStepper:
    """The loop's steps for the slices of a lane; stands in for `fused.DenseStepper`."""

    def __init__(self, plan: Plan, loop: Loop, arrays: Mapping[str, Array], device: Device) -> None:
        graph, network = plan.graph, plan.graph.network
        layer, link = network.layers[loop.code], graph.wirings[loop.dictionary].link
        assert link is not None
        kernel = network.run.kernel
        assert kernel == "auto" or kernel == "display" or kernel == "step"
        self.layer, self.dt = layer, network.run.dt
        self.code, self.residual, self.dictionary = loop.code, loop.error, loop.dictionary
        self.state = owned(arrays, f"layers/{loop.code}")
        self._units = units(layer, self.state)
        if not self._units.before.size:
            self._units = self._units._replace(before=self._units.V)
        lanes = len(self.state["A"])
        self.kernels = LoopKernels(
            device, link.patches, numbers(layer), loop.image_factor, lanes, kernel, network.run.tf32
        )  # fmt: skip
        self.watch = LoopProbes(plan, loop, link.patches.positions * link.patches.features)
        if self.kernels.display is None:
            self.watch.recordings.clear()
        names = (loop.image, loop.recon, loop.error)
        self._image, self._recon, self._error = (arrays[f"layers/{name}/A"] for name in names)
        self._activity = arrays[f"layers/{loop.code}/A"]
        weights = arrays[f"connections/{loop.dictionary}/weights"]
        self._weights = weights.reshape(len(weights), link.patches.features, link.patches.length)
        if isinstance(layer, FISTA):
            self._rates = self.state["step"], self.state["age"]
        else:
            self._rates = device.xp.zeros(lanes, np.float32), device.xp.zeros(lanes, np.float32)

    def load_weights(self) -> None:
        """Take over the weights; to be called when they may have changed."""
        self.kernels.load(self._weights)

    def run(self, first: int, last: int, fresh: bool) -> Array:
        """Make steps first+1 .. last; return the sums that `watch` needs, float64 `[steps, lanes, 3]`."""
        if isinstance(self.layer, LCA):
            now = self.layer.decays(self.dt, self.state, self.kernels.device.xp)
            for target, value in zip(self._rates, now, strict=True):
                target[...] = value.reshape(-1) if np.ndim(value) else value
        watched = self.watch.due(first, last).any()
        sums = self.kernels.sums(last - first) if watched else None
        arrays = (self._image, self._recon, self._error, self._units, self._rates)
        self.kernels.run(*arrays, last - first, sums)
        return host(sums) if sums is not None else np.zeros((last - first, self.kernels.lanes, 3))

    def learns(self, connection: str, pre: str, against: str, rule: Learning) -> bool:
        """Say whether `gradient` gives the product of this connection's rule."""
        plain = type(rule).tally is Learning.tally
        return plain and (connection, pre, against) == (self.dictionary, self.code, self.residual)

    def gradient(self, product: Array, counts: Array | None) -> None:
        """Write the Hebbian product of code and error, and the counts of active units behind each weight."""
        self.kernels.gradient(self._activity, self._error, product, counts)


def fuse_on(device: Device, plan: Plan, arrays: Mapping[str, Array]) -> CudaStepper | None:
    """Return the loop of a lane on a GPU, or None where layers run one by one.

    Raises ResourceError when `run.kernel` names a kernel that this network cannot have.
    """
    graph, run = plan.graph, plan.graph.network.run
    loop = find_loop(graph) if run.precision == "float32" else None
    if loop is not None and loop.shared and run.kernel != "array":
        try:
            return CudaStepper(plan, loop, arrays, device)
        except ResourceError:
            if run.kernel != "auto":
                raise
    elif run.kernel in ("display", "step"):
        raise ResourceError(
            f'run.kernel = "{run.kernel}" is asked for, and this network has no loop that it could run\n'
            "    expected: image, error, lca or its kin, and reconstruction; one dictionary of shared "
            "weights; float32\n"
            '    hint:     run.kernel = "auto"'
        )
    return None
