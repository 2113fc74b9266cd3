"""Runs a sparse-coding loop by its compiled kernel, on the arrays of one slice."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from petabatch.engine.state import owned
from petabatch.engine.steppers.bind import TIME_SCALES, numbers, pace, units
from petabatch.engine.steppers.probe_sums import LoopProbes
from petabatch.geometry import Patches
from petabatch.kernels.cpu import layout as cpu_layout
from petabatch.kernels.cpu import step as cpu
from petabatch.kernels.cpu.gradient import dictionary_gradient, gradient_scratch
from petabatch.kernels.cpu.threads import advance_rows
from petabatch.layers import FISTA, LCA
from petabatch.network.loop import Loop, find_loop
from petabatch.network.plan import Plan
from petabatch.spec.weights import Learning
from petabatch.variable import Array

_workspaces = threading.local()
_SHARED_STEP = 50_000_000
"""Multiply-adds of a step, a millisecond or so, from which several threads share the rows of a slice."""


class Workspace:
    """What a thread needs to work on slices of one geometry: scratch, and the weights in reading order."""

    def __init__(self, p: Patches, accelerated: bool) -> None:
        self.shape = cpu_layout.shape(p)
        self.dictionary = cpu_layout.dictionary(p)
        self.packed = np.full((1, p.features, p.length), np.nan, np.float32)
        """The weights that `dictionary` holds."""
        self.packings = 0
        """How often they have changed."""
        self.products = gradient_scratch(p)
        self._scratches: list[cpu_layout.Scratch] = []
        self._make = partial(cpu_layout.scratch, p, accelerated)

    @property
    def scratch(self) -> cpu_layout.Scratch:
        """Scratch for this thread."""
        return self.scratches(1)[0]

    def scratches(self, threads: int) -> list[cpu_layout.Scratch]:
        """Return scratch for this thread and others that help it; made once."""
        while len(self._scratches) < threads:
            self._scratches.append(self._make())
        return self._scratches[:threads]


@dataclass(frozen=True)
class Rows:
    """Threads that work on one slice together."""

    pool: Executor
    threads: int


class DenseStepper:
    """The loop's steps for one slice; `run` replaces the layers' own updates."""

    def __init__(self, plan: Plan, loop: Loop, arrays: Mapping[str, Array]) -> None:
        network = plan.graph.network
        layer, link = network.layers[loop.code], plan.graph.wirings[loop.dictionary].link
        assert link is not None
        self.patches, self.layer, self.dt = link.patches, layer, network.run.dt
        self.cell = numbers(layer)
        self.state = owned(arrays, f"layers/{loop.code}")
        self.units = units(layer, self.state)
        self.factor = np.float32(loop.image_factor)
        self.code, self.residual = loop.code, loop.error
        self.watch = LoopProbes(plan, loop, self.units.A.size)
        scale = layer.time_scale if isinstance(layer, LCA) else None
        self.followed = None
        if scale is not None and type(scale) in TIME_SCALES:
            self.followed = self.watch.energies.get(scale.energy)
        """The energy that the time scale follows inside the loop."""
        self.rows: Rows | None = None
        """Threads that share the rows of this slice, when there are more threads than slices."""
        p = self.patches
        self.image, self.recon, self.error = (
            arrays[f"layers/{name}/A"].reshape(p.y.fine, p.x.fine * p.channels)
            for name in (loop.image, loop.recon, loop.error)
        )
        self.dictionary = loop.dictionary
        self.weights = arrays[f"connections/{loop.dictionary}/weights"].reshape(-1, p.features, p.length)

    @property
    def worth_sharing(self) -> bool:
        """Say whether a step takes much longer than threads take to meet."""
        return self.patches.multiply_adds > _SHARED_STEP

    def load_weights(self) -> None:
        """Put the weights in reading order; to be called by each thread when they may have changed."""
        workspace = self._workspace()
        if not self.patches.shared:
            return
        # Comparing is a hundred times faster than packing, and most often another slice has packed the same.
        if not cpu_layout.same(self.weights.reshape(-1), workspace.packed.reshape(-1)):
            cpu_layout.pack(self.weights[0], self.patches, workspace.dictionary)
            workspace.packed[...] = self.weights
            workspace.packings += 1

    def run(self, first: int, last: int, fresh: bool) -> Array:
        """Make steps first+1 .. last; `fresh` says that the image is new in the first of them.

        Returns sum error^2, sum |A| and the number of active units of the steps that `watch` looks at,
        float64 `[steps, 1, 3]`.
        """
        workspace, steps, watched = self._workspace(), last - first, self.watch.due(first, last)
        sums = np.zeros((steps, 3))
        weights = workspace.dictionary if self.patches.shared else cpu_layout.non_shared_patches(self.weights)
        images = cpu_layout.Images(self.image, self.factor, self.recon, self.error)
        state = images, self.units, cpu_layout.Model(weights, self.cell, workspace.shape)
        record = cpu_layout.StepSums(watched, sums)
        pace_now = pace(self.layer, self.dt, self.state, self.followed)
        if self.rows is None:
            cpu.advance(*state, pace_now, fresh, workspace.scratch, record)
        else:
            works = workspace.scratches(self.rows.threads)
            advance_rows(self.rows.pool, *state, pace_now, fresh, works, record)
        return sums[:, None]

    def sums(self) -> Array:
        """Return the sums of the step before, `[3]`, as `run` would have."""
        workspace = self._workspace()
        return np.array(cpu.sums_of_state(self.error, self.units.A, workspace.shape, workspace.scratch))

    def learns(self, connection: str, pre: str, against: str, rule: Learning) -> bool:
        """Say whether `gradient` gives the product of this connection's rule."""
        plain = self.patches.shared and type(rule).tally is Learning.tally
        return plain and (connection, pre, against) == (self.dictionary, self.code, self.residual)

    def gradient(self, product: Array, counts: Array | None) -> None:
        """Write the Hebbian product of code and error, and the counts of active units behind each weight."""
        workspace = self._workspace()
        product = product.reshape(self.weights.shape[1:])
        counts = None if counts is None else counts.reshape(len(product), -1)
        dictionary_gradient(
            self.units.A, self.error, workspace.shape, workspace.scratch, workspace.products, product, counts
        )  # fmt: skip

    def _workspace(self) -> Workspace:
        """Return this thread's own space for this geometry."""
        spaces: dict[tuple[Patches, bool], Workspace] = _workspaces.__dict__.setdefault("by_patches", {})
        key = (self.patches, isinstance(self.layer, FISTA))
        if key not in spaces:
            spaces[key] = Workspace(*key)
        return spaces[key]


def fuse_dense(plan: Plan, arrays: Mapping[str, Array]) -> DenseStepper | None:
    """Return the loop that computes all units in every step, or None where the network has none."""
    run = plan.graph.network.run
    loop = find_loop(plan.graph) if run.kernel != "array" and run.precision == "float32" else None
    return DenseStepper(plan, loop, arrays) if loop is not None else None
