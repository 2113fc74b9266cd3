"""The stepper of a sparse-coding loop by its compiled kernel, which computes all units in every step."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

import numpy as np

from petabatch.engine.steppers.base import Binding, Rows, Stepper, StepTimes
from petabatch.engine.steppers.bind import bind_loop, cell_arrays, loop_norms, step_control
from petabatch.engine.steppers.looks import LoopLooks
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.engine.steppers.timing import time_dense_step
from petabatch.geometry import Patches
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.gradient import dictionary_gradient, gradient_scratch
from petabatch.kernels.cpu.step import advance, sums_of_state
from petabatch.kernels.cpu.threads import advance_rows
from petabatch.spec.weights import Learning
from petabatch.variable import Array

_workspaces = threading.local()
_SHARED_STEP = 50_000_000
"""Multiply-adds of a step, a millisecond or so, from which several threads share the rows of a slice."""


class Workspace:
    """What a thread needs to work on slices of one geometry: scratch, and the weights in reading order."""

    def __init__(self, p: Patches, accelerated: bool) -> None:
        self.shape = layout.shape(p)
        self.dictionary = layout.dictionary(p)
        self.packed = np.full((1, p.features, p.length), np.nan, np.float32)
        """The weights that `dictionary` holds."""
        self.packings = 0
        """How often they have changed."""
        self.products = gradient_scratch(p)
        self._scratches: list[layout.Scratch] = []
        self._make = partial(layout.scratch, p, accelerated)

    @property
    def scratch(self) -> layout.Scratch:
        """Scratch for this thread."""
        return self.scratches(1)[0]

    def scratches(self, threads: int) -> list[layout.Scratch]:
        """Return scratch for this thread and others that help it; made once."""
        while len(self._scratches) < threads:
            self._scratches.append(self._make())
        return self._scratches[:threads]


class DenseStepper(Stepper):
    """The loop's steps for one slice."""

    def __init__(self, bound: Binding) -> None:
        self.loop = loop = bind_loop(bound.plan, bound.arrays)
        self.patches = p = loop.patches
        self.units = cell_arrays(loop.rule, loop.state)
        probes = StepProbes.of(bound.plan, loop_norms(bound.plan.method.loop))
        self.followed = probes.energies.get(loop.rule.energy)
        """The energy that the time scale follows inside the loop."""
        code = bound.plan.method.loop.code
        super().__init__(bound, probes, frozenset([code] if self.followed else []))
        followed = loop.rule.scale is None or self.followed is not None
        self.looks = LoopLooks.of(bound.plan, bound.arrays) if followed else LoopLooks.none(bound.plan)
        self.rows: Rows | None = None
        """Threads that share the rows of this slice, when there are more threads than slices."""
        fine = (p.y.fine, p.x.fine * p.channels)
        image, recon, error = (array.reshape(fine) for array in (loop.image, loop.recon, loop.error))
        self.images = layout.Images(image, loop.factor, recon, error)
        self.weights = loop.weights.reshape(-1, p.features, p.length)

    @property
    def looks_inside(self) -> bool:
        """Whether the gap is that of the loop; see `Stepper`."""
        return bool(self.looks)

    def share(self, rows: Rows) -> None:
        """Let threads share the rows of a slice if a step takes much longer than they take to meet."""
        if rows.threads > 1 and self.patches.multiply_adds > _SHARED_STEP:
            self.rows = rows

    def unshare(self) -> None:
        """Work on one thread again."""
        self.rows = None

    def warm_up(self) -> None:
        """Compile by making no steps."""
        self.run(0, 0, False)

    def load_weights(self) -> None:
        """Put the weights in reading order; each thread calls this when they may have changed."""
        workspace = self.workspace()
        if not self.patches.shared:
            return
        # Comparing is a hundred times faster than packing, and most often another slice has packed the same.
        if not layout.same(self.weights.reshape(-1), workspace.packed.reshape(-1)):
            layout.pack(self.weights[0], self.patches, workspace.dictionary)
            workspace.packed[...] = self.weights
            workspace.packings += 1

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        workspace, watched = self.workspace(), self.probes.due(first, last)
        found = np.zeros((last - first, 3))
        loop, shared = self.loop, self.patches.shared
        weights = workspace.dictionary if shared else layout.non_shared_patches(self.weights)
        model = layout.Model(weights, loop.cell, workspace.shape)
        control = step_control(loop.rule, loop.dt, loop.state, self.followed)
        looks = self.looks.within(first, last)
        state = (self.images, self.units, model)
        record = layout.StepSums(watched | looks.due if self.looks else watched, found)
        if self.rows is None:
            made = advance(*state, control, new_image, workspace.scratch, record, looks)
        else:
            works = workspace.scratches(self.rows.threads)
            made = advance_rows(self.rows.pool, *state, control, new_image, works, record, looks)
        self.reached = first + made
        return found[:, None]

    def sums(self, step: int) -> Array:
        """Return the sums of the step before, `[3]`, as `run` would have."""
        workspace = self.workspace()
        return np.array(sums_of_state(self.images.error, self.units.A, workspace.shape, workspace.scratch))

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
        """Write the product of the code with the error, from the active units alone; see `Stepper`."""
        loop = self.bound.plan.method.loop
        plain = self.patches.shared and type(rule).tally is Learning.tally
        if not plain or (connection, pre, against) != (loop.dictionary, loop.code, loop.error):
            return False
        workspace = self.workspace()
        product = product.reshape(self.weights.shape[1:])
        counts = None if counts is None else counts.reshape(len(product), -1)
        scratch = (workspace.shape, workspace.scratch, workspace.products)
        dictionary_gradient(self.units.A, self.images.error, *scratch, product, counts)
        return True

    def time_parts(self, steppers: Sequence[Stepper]) -> StepTimes:
        """Time the kernels of a step one by one; see `Stepper`."""
        return time_dense_step(self.patches, self.images, self.units.A, self.weights)

    def workspace(self) -> Workspace:
        """Return this thread's own workspace for this geometry."""
        workspaces: dict[tuple[Patches, bool], Workspace] = _workspaces.__dict__.setdefault("by_patches", {})
        key = (self.patches, self.loop.rule.adaptive is not None)
        if key not in workspaces:
            workspaces[key] = Workspace(*key)
        return workspaces[key]
