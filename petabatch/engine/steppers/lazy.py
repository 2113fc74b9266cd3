"""The stepper of an LCA loop by lazy evaluation: only units are computed that could be active."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from petabatch.engine.steppers.base import Binding, Rows, Stepper
from petabatch.engine.steppers.bind import step_control
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.geometry import Patches
from petabatch.kernels.cpu.convolution import crop, paste
from petabatch.kernels.cpu.lazy import bound as lazy_bound
from petabatch.kernels.cpu.lazy import layout as lazy_layout
from petabatch.kernels.cpu.lazy import state as lazy_state
from petabatch.kernels.cpu.lazy import step as lazy_step
from petabatch.kernels.cpu.lazy.threads import ThreadTeam, advance_lazily_in_rows, aim_in_rows
from petabatch.network.lazy import AWAKE, MOST_ACTIVE, NAME
from petabatch.spec.weights import Learning
from petabatch.variable import Array

_workspaces = threading.local()


class LazyWorkspace:
    """What a thread needs beside the workspace of `DenseStepper`."""

    def __init__(self, p: Patches, groups: Array) -> None:
        self.features = lazy_layout.features(p, groups)
        self.filled = 0
        """Which packing of the weights `features` holds."""
        self._scratches: list[lazy_layout.LazyScratch] = []

    def scratches(self, p: Patches, threads: int) -> list[lazy_layout.LazyScratch]:
        """Return scratch for this thread and others that help it; made once."""
        while len(self._scratches) < threads:
            self._scratches.append(lazy_layout.bench(p))
        return self._scratches[:threads]


class LazyStepper(Stepper):
    """The loop's steps for one slice. V is out of date after `run`, until `materialise`."""

    def __init__(self, bound: Binding) -> None:
        self.dense = dense = DenseStepper(bound)
        """The stepper of the same slice while all units are computed."""
        super().__init__(bound, dense.probes, dense.follows)
        arrays, run = bound.arrays, bound.plan.graph.network.run
        self.patches, self.units, self.loop = dense.patches, dense.units, dense.loop
        self.age = arrays[f"{NAME}/age"]
        self.filtered = arrays[f"{NAME}/filtered"].reshape(dense.error.shape)
        self.sleep = lazy_layout.sleep(self.patches, arrays[f"{NAME}/history"].reshape(-1))
        control = step_control(self.loop.rule, self.loop.dt, self.loop.state, None)
        self.e, self.gain = control.e, control.rest
        self.decay_table = lazy_layout.decay_table(self.e, self.gain)
        self.most = MOST_ACTIVE if run.kernel == "auto" else 1.0
        self.display = run.display
        self._known = False
        """The alarms of this slice are set."""
        self._behind = False
        """V is that of a step before."""

    @property
    def sleeps(self) -> bool:
        """Say whether units may sleep while this image is shown."""
        return bool(self.age[0] != AWAKE)

    def share(self, rows: Rows) -> None:
        """Let several threads share the rows of a slice; see `DenseStepper`."""
        self.dense.share(rows)

    def unshare(self) -> None:
        """Work on one thread again."""
        self.dense.unshare()

    def sums(self) -> Array:
        """Return the sums of the step before; see `Stepper`."""
        return self.dense.sums()

    def products(
        self,
        connection: str,
        pre: str,
        against: str,
        rule: Learning,
        product: Array,
        counts: Array | None,
    ) -> bool:
        """Write the product of the code with the error; see `DenseStepper`."""
        return self.dense.products(connection, pre, against, rule, product, counts)

    def load_weights(self) -> None:
        """Put the weights in reading order; each thread calls this when they may have changed."""
        self.dense.load_weights()
        mine, packings = self._workspace(), self.dense.workspace().packings
        if mine.filled != packings:
            lazy_layout.fill(self.dense.weights[0], self.patches, mine.features)
            mine.filled = packings

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        if new_image:
            self._choose()
        if self.sleeps:
            sums = self._advance(first, last, new_image)
        else:
            sums = self.dense.run(first, last, new_image)
        self.reached = last
        return sums

    def warm_up(self) -> None:
        """Compile by making no steps, and what `materialise` and new images call, on nothing."""
        dense, mine, space = self.dense, self._workspace(), self.dense.workspace()
        dense.warm_up()
        nothing, nowhere = space.shape._replace(ny=0, height=0), space.scratch.strips[:0]
        nobody = self.sleep._replace(lead=np.zeros(1, "f4"), path=np.zeros(0, "f4"), alarm=np.zeros(0, "f4"))
        scratch = (
            nothing,
            space.scratch._replace(strips=nowhere),
            mine.scratches(self.patches, 1)[0],
        )
        paste(self.filtered, nothing, nobody.filtered)
        lazy_state.take_over(0, False, self.units, nobody, nothing)
        loop = self.loop
        ends = (dense.image, loop.factor, dense.recon, loop.cell.signed, nobody, mine.features)
        lazy_bound.aim(*ends, *scratch)
        state = (self.units, nobody, mine.features, self.decay_table)
        lazy_state.potentials(0, 0, False, *state, *scratch)
        self._steps(None, 0, 0, np.zeros(0, bool), np.zeros((0, 3)))

    def materialise(self) -> None:
        """Bring V up to date, on any thread; changes nothing that later steps depend on."""
        if self._behind:
            self.load_weights()
            self._write_potentials()

    def before_weight_change(self) -> None:
        """Bring V up to date and go on from it alone, for weights are about to change.

        The thread that made the steps, which has the weights, calls this.
        """
        if not self.sleeps:
            return
        if self._behind:
            self._write_potentials(anew=True)
        else:
            self._take_over(self._team(), anew=True)
        self.age[...] = 0

    def _choose(self) -> None:
        """Decide whether units may sleep while the new image is shown: not if many are active.

        This depends on the slice alone, so that it is the same on any rank and after a resume.
        """
        if np.count_nonzero(self.units.A) > self.most * self.units.A.size:
            self.materialise()
            self.age[...], self._known = AWAKE, False
        elif not self.sleeps:
            self.age[...] = 0

    def _advance(self, first: int, last: int, new_image: bool) -> Array:
        """Make lazy steps."""
        watched, sums = self.probes.due(first, last), np.zeros((last - first, 3))
        team = self._team()
        self._begin(new_image, team)
        self.age[...] = self._steps(team, last - first, -last % self.display, watched, sums)
        crop(self.sleep.filtered, self.dense.workspace().shape, self.filtered)
        self._behind = True
        return sums[:, None]

    def _steps(self, team: ThreadTeam | None, steps: int, beyond: int, watched: Array, sums: Array) -> int:
        """Make `steps` steps; return the age."""
        dense, loop, mine, space = self.dense, self.loop, self._workspace(), self.dense.workspace()
        images = (dense.image, loop.factor, dense.recon, dense.error)
        state = (*images, self.units, self.sleep, mine.features, loop.cell)
        numbers = (self.e, self.gain, self.decay_table, int(self.age[0]), space.shape)
        if team is None:
            scratch = (space.scratch, mine.scratches(self.patches, 1)[0])
            age, _ = lazy_step.advance_lazily(*state, *numbers, *scratch, steps, beyond, watched, sums)
            return int(age)
        return advance_lazily_in_rows(team, *state, *numbers, steps, beyond, watched, sums)

    def _begin(self, new_image: bool, team: ThreadTeam | None) -> None:
        """Set the state that the steps go on from, if it is not there, and aim."""
        anew = self.age[0] == 0
        if anew:
            self.filtered[...] = 0
        if anew or not self._known:
            paste(self.filtered, self.dense.workspace().shape, self.sleep.filtered)
        if not self._known:
            self._take_over(team, anew)
        if anew or new_image or not self._known:
            self._aim(team)
            self.sleep.in_vain[0], self._known = 0, True

    def _take_over(self, team: ThreadTeam | None, anew: bool) -> None:
        state = (anew, self.units, self.sleep, self.dense.workspace().shape)
        self._each_tile(team, lambda tile, _: lazy_state.take_over(tile, *state))

    def _aim(self, team: ThreadTeam | None) -> None:
        dense, mine, space = self.dense, self._workspace(), self.dense.workspace()
        images = (dense.image, self.loop.factor, dense.recon)
        ends = (*images, self.loop.cell.signed, self.sleep, mine.features, space.shape)
        if team is None:
            lazy_bound.aim(*ends, space.scratch, mine.scratches(self.patches, 1)[0])
        else:
            aim_in_rows(team, *ends)

    def _team(self) -> ThreadTeam | None:
        """Return the threads that share this slice, if any do."""
        rows = self.dense.rows
        if rows is None:
            return None
        works, scratches = self.dense.workspace().scratches(rows.threads), self._workspace()
        return ThreadTeam(rows.pool, works, scratches.scratches(self.patches, rows.threads))

    def _each_tile(self, team: ThreadTeam | None, work: Callable[[int, int], object]) -> None:
        """Have `work` done for each tile, given its number and that of the thread."""
        if team is not None:
            team.each_tile(work)
            return
        for tile in range(len(self.dense.workspace().scratch.strips)):
            work(tile, 0)

    def _write_potentials(self, anew: bool = False) -> None:
        mine, space, team = self._workspace(), self.dense.workspace(), self._team()
        works = [space.scratch] if team is None else team.works
        scratches = mine.scratches(self.patches, 1) if team is None else team.benches
        state = (int(self.age[0]), anew, self.units, self.sleep, mine.features, self.decay_table, space.shape)

        def write(tile: int, thread: int) -> None:
            lazy_state.potentials(tile, *state, works[thread], scratches[thread])

        self._each_tile(team, write)
        self._behind = False

    def _workspace(self) -> LazyWorkspace:
        """Return this thread's own workspace for this geometry."""
        workspaces: dict[Patches, LazyWorkspace] = _workspaces.__dict__.setdefault("by_patches", {})
        if self.patches not in workspaces:
            groups = self.dense.workspace().dictionary.groups
            workspaces[self.patches] = LazyWorkspace(self.patches, groups)
        return workspaces[self.patches]
