"""Runs the LCA loop of one slice by the kernel in which silent units sleep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np

from petabatch.engine.steppers.bind import pace
from petabatch.engine.steppers.dense import DenseStepper, fuse_dense
from petabatch.geometry import Patches
from petabatch.kernels.cpu.convolution import crop, paste
from petabatch.kernels.cpu.layout import Images, StepSums
from petabatch.kernels.cpu.lazy import bound as cpu_lazy_motion
from petabatch.kernels.cpu.lazy import layout as cpu_lazy_layout
from petabatch.kernels.cpu.lazy import state as cpu_lazy_state
from petabatch.kernels.cpu.lazy import step as cpu_lazy
from petabatch.kernels.cpu.lazy.threads import ThreadTeam, advance_lazily_in_rows, choose_direction_in_rows
from petabatch.network.lazy import AWAKE, MOST_ACTIVE, NAME, lazy_loop
from petabatch.network.loop import Loop
from petabatch.network.plan import Plan
from petabatch.variable import Array

_workspaces = threading.local()


class LazyWorkspace:
    """What a thread needs beside the space of `DenseStepper`."""

    def __init__(self, p: Patches, groups: Array) -> None:
        self.features = cpu_lazy_layout.features(p, groups)
        self.filled = 0
        """Which packing of the weights `features` holds."""
        self.benches: list[cpu_lazy_layout.LazyScratch] = []

    def bench(self, p: Patches, threads: int) -> list[cpu_lazy_layout.LazyScratch]:
        """Return scratch for this thread and others that help it; made once."""
        while len(self.benches) < threads:
            self.benches.append(cpu_lazy_layout.lazy_scratch(p))
        return self.benches[:threads]


class LazyStepper(DenseStepper):
    """The loop's steps for one slice. V is out of date after `run`, until `show`."""

    def __init__(self, plan: Plan, loop: Loop, arrays: Mapping[str, Array]) -> None:
        super().__init__(plan, loop, arrays)
        self.age = arrays[f"{NAME}/age"]
        self.filtered = arrays[f"{NAME}/filtered"].reshape(self.error.shape)
        self.sleep = cpu_lazy_layout.lazy_state(self.patches, arrays[f"{NAME}/history"].reshape(-1))
        speed = pace(self.layer, self.dt, self.state, None)
        self.decay_table = cpu_lazy_layout.decay_table(speed.e, speed.gain)
        self.most = MOST_ACTIVE if plan.graph.network.run.kernel == "auto" else 1.0
        self.display = plan.graph.network.run.display
        self._known = False
        """The wake levels of this slice are set."""
        self._behind = False
        """V is that of a step before."""

    @property
    def sleeps(self) -> bool:
        """Say whether units may sleep while this image is shown."""
        return bool(self.age[0] != AWAKE)

    def load_weights(self) -> None:
        """Put the weights in reading order; to be called by each thread when they may have changed."""
        super().load_weights()
        mine, packings = self._lazy_workspace(), self._workspace().packings
        if mine.filled != packings:
            cpu_lazy_layout.fill(self.weights[0], self.patches, mine.features)
            mine.filled = packings

    def run(self, first: int, last: int, fresh: bool) -> Array:
        """Make steps first+1 .. last; return the sums of those that `watch` looks at, `[steps, 1, 3]`."""
        if fresh and last > first:
            self._choose()
        if not self.sleeps:
            return super().run(first, last, fresh)
        workspace, steps = self._workspace(), last - first
        watched, sums = self.watch.due(first, last), np.zeros((steps, 3))
        team, beyond = self._crew(), -last % self.display
        if steps > 0:
            self._begin(fresh, team)
        state = (self._images(), self.units, self.sleep, self._model(), int(self.age[0]), beyond)
        record = StepSums(watched, sums)
        if team is None:
            scratch = (workspace.scratch, self._lazy_workspace().bench(self.patches, 1)[0])
            age, _ = cpu_lazy.advance_lazily(*state, *scratch, record)
        else:
            age = advance_lazily_in_rows(team, *state, record)
        if steps > 0:
            self.age[...] = age
            crop(self.sleep.filtered, workspace.shape, self.filtered)
            self._behind = True
        else:
            self._compile()
            super().run(first, last, False)
        return sums[:, None]

    def show(self) -> None:
        """Bring V up to date, on any thread; changes nothing that later steps depend on."""
        if self._behind:
            self.load_weights()
            self._write_potentials()

    def settle(self) -> None:
        """Bring V up to date and go on from it alone, because weights are about to change.

        To be called by the thread that made the steps, which has the weights.
        """
        if not self.sleeps:
            return
        if self._behind:
            self._write_potentials(anew=True)
        else:
            self._take_over(self._crew(), anew=True)
        self.age[...] = 0

    def _choose(self) -> None:
        """Decide whether units may sleep while the new image is shown: not if many are active.

        This depends on the slice alone, so that it is the same on any rank and after a resume.
        """
        if np.count_nonzero(self.units.A) > self.most * self.units.A.size:
            self.show()
            self.age[...], self._known = AWAKE, False
        elif not self.sleeps:
            self.age[...] = 0

    def _begin(self, fresh: bool, team: ThreadTeam | None) -> None:
        """Set the state that the steps go on from, if it is not there, and aim."""
        anew = self.age[0] == 0
        if anew:
            self.filtered[...] = 0
        if anew or not self._known:
            paste(self.filtered, self._workspace().shape, self.sleep.filtered)
        if not self._known:
            self._take_over(team, anew)
        if anew or fresh or not self._known:
            self._aim(team)
            self.sleep.wasted[0], self._known = 0, True

    def _take_over(self, team: ThreadTeam | None, anew: bool) -> None:
        state = (anew, self.units, self.sleep, self._workspace().shape)
        self._each_tile(team, lambda tile, _: cpu_lazy_state.load_units(tile, *state))

    def _aim(self, team: ThreadTeam | None) -> None:
        workspace, mine = self._workspace(), self._lazy_workspace()
        ends = (self._images(), self.sleep, self._model())
        if team is None:
            cpu_lazy_motion.choose_direction(*ends, workspace.scratch, mine.bench(self.patches, 1)[0])
        else:
            choose_direction_in_rows(team, *ends)

    def _images(self) -> Images:
        return Images(self.image, self.factor, self.recon, self.error)

    def _model(self) -> cpu_lazy_layout.LazyModel:
        features, shape = self._lazy_workspace().features, self._workspace().shape
        return cpu_lazy_layout.LazyModel(features, self.cell, self.decay_table, shape)

    def _crew(self) -> ThreadTeam | None:
        """Return the threads that share this slice, if any do."""
        if self.rows is None:
            return None
        works, benches = self._workspace().scratches(self.rows.threads), self._lazy_workspace()
        return ThreadTeam(self.rows.pool, works, benches.bench(self.patches, self.rows.threads))

    def _each_tile(self, team: ThreadTeam | None, work: Callable[[int, int], object]) -> None:
        """Have `work` done for each tile, given its number and that of the thread."""
        if team is not None:
            team.each_tile(work)
            return
        for tile in range(len(self._workspace().scratch.strips)):
            work(tile, 0)

    def _compile(self) -> None:
        """Have the kernels compiled that `show` and `_begin` call, on nothing."""
        workspace, mine = self._workspace(), self._lazy_workspace()
        nothing, nowhere = workspace.shape._replace(ny=0, height=0), workspace.scratch.strips[:0]
        nobody = self.sleep._replace(
            progress=np.zeros(1, "f4"), path_length=np.zeros(0, "f4"), wake_level=np.zeros(0, "f4")
        )
        own = (workspace.scratch._replace(strips=nowhere), mine.bench(self.patches, 1)[0])
        paste(self.filtered, nothing, nobody.filtered)
        cpu_lazy_state.load_units(0, False, self.units, nobody, nothing)
        model = self._model()._replace(shape=nothing)
        cpu_lazy_motion.choose_direction(self._images(), nobody, model, *own)
        cpu_lazy_state.materialise_potentials(0, 0, False, self.units, nobody, model, *own)

    def _write_potentials(self, anew: bool = False) -> None:
        workspace, mine, team = self._workspace(), self._lazy_workspace(), self._crew()
        works = [workspace.scratch] if team is None else team.works
        benches = mine.bench(self.patches, 1) if team is None else team.scratches
        state = (int(self.age[0]), anew, self.units, self.sleep, self._model())
        self._each_tile(
            team,
            lambda tile, thread: cpu_lazy_state.materialise_potentials(
                tile, *state, works[thread], benches[thread]
            ),
        )
        self._behind = False

    def _lazy_workspace(self) -> LazyWorkspace:
        """Return this thread's own space for this geometry."""
        spaces: dict[Patches, LazyWorkspace] = _workspaces.__dict__.setdefault("by_patches", {})
        if self.patches not in spaces:
            spaces[self.patches] = LazyWorkspace(self.patches, self._workspace().dictionary.groups)
        return spaces[self.patches]


def fuse(plan: Plan, arrays: Mapping[str, Array]) -> DenseStepper | None:
    """Return the fused loop of a lane of one slice, or None where the network has none."""
    loop = lazy_loop(plan.graph)
    return fuse_dense(plan, arrays) if loop is None else LazyStepper(plan, loop, arrays)
