"""The stepper of an LCA loop by lazy evaluation: only units are computed that could be active."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from petabatch.engine.steppers.base import Binding, Rows, Stepper, StepTimes
from petabatch.engine.steppers.bind import step_control
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.timing import time_lazy_step
from petabatch.geometry import Patches
from petabatch.kernels.cpu.certificate import NO_LOOKS, Looks
from petabatch.kernels.cpu.convolution import crop, paste
from petabatch.kernels.cpu.layout import StepSums
from petabatch.kernels.cpu.lazy import layout
from petabatch.kernels.cpu.lazy.bound import choose_direction
from petabatch.kernels.cpu.lazy.layout import LazyModel, LazyScratch
from petabatch.kernels.cpu.lazy.state import load_units, materialise_potentials
from petabatch.kernels.cpu.lazy.step import advance_lazily
from petabatch.kernels.cpu.lazy.threads import ThreadTeam, advance_lazily_in_rows, choose_direction_in_rows
from petabatch.network.lazy import AWAKE
from petabatch.network.lazy_codes import MOST_ACTIVE, NAME
from petabatch.spec.weights import Learning
from petabatch.variable import Array

_workspaces = threading.local()


class LazyWorkspace:
    """What a thread needs in addition to the workspace of `DenseStepper`."""

    def __init__(self, p: Patches, groups: Array) -> None:
        self.features = layout.features(p, groups)
        self.filled = 0
        """Which packing of the weights `features` holds."""
        self._scratches: list[LazyScratch] = []

    def scratches(self, p: Patches, threads: int) -> list[LazyScratch]:
        """Return scratch for this thread and others that help it; made once."""
        while len(self._scratches) < threads:
            self._scratches.append(layout.lazy_scratch(p))
        return self._scratches[:threads]


class LazyStepper(Stepper):
    """The loop's steps for one slice. V is out of date after `run`, until `materialise`."""

    def __init__(self, bound: Binding) -> None:
        self.dense = dense = DenseStepper(bound)
        """The stepper of the same slice while all units are computed."""
        super().__init__(bound, dense.probes, dense.follows)
        arrays, run = bound.arrays, bound.plan.graph.network.run
        self.patches, self.units = dense.patches, dense.units
        self.age = arrays[f"{NAME}/age"]
        self.filtered = arrays[f"{NAME}/filtered"].reshape(dense.images.error.shape)
        self.lazy = layout.lazy_state(self.patches, arrays[f"{NAME}/history"].reshape(-1))
        control = step_control(dense.loop.rule, dense.loop.dt, dense.loop.state, None)
        self._decay = layout.decay_table(control.e, control.gain)
        self._most = MOST_ACTIVE if run.kernel == "auto" else 1.0
        self.display = run.display
        self._made, self._computed = 0, 0
        """Steps made on one thread, and units computed in them."""
        self._known = False
        """The wake levels of this slice are set."""
        self._behind = False
        """V is that of a step before."""

    @property
    def sleeps(self) -> bool:
        """Say whether units may sleep while this image is shown."""
        return bool(self.age[0] != AWAKE)

    @property
    def looks_inside(self) -> bool:
        """Whether the gap is that of the loop; see `Stepper`."""
        return self.dense.looks_inside

    def share(self, rows: Rows) -> None:
        """Let several threads share the rows of a slice; see `DenseStepper`."""
        self.dense.share(rows)

    def unshare(self) -> None:
        """Work on one thread again."""
        self.dense.unshare()

    def sums(self, step: int) -> Array:
        """Return the sums of the step before; see `Stepper`."""
        return self.dense.sums(step)

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
        """Write the product of the code with the error; see `DenseStepper`."""
        return self.dense.products(step, connection, pre, against, rule, product, counts)

    def computed(self) -> dict[str, float]:
        """Return the share of units computed in a step on one thread; see `Stepper`."""
        code = self.bound.plan.method.loop.code
        return {code: self._computed / (self._made * self.units.A.size)} if self._made else {}

    def time_parts(self, steppers: Sequence[Stepper]) -> StepTimes:
        """Time a step as far as each of its parts; see `Stepper`."""
        if not self.sleeps:
            return self.dense.time_parts(steppers)
        images, age = self.dense.images, int(self.age[0])
        return time_lazy_step(images, self.lazy, self._model(), self.patches, age, self.dense.weights[0])

    def load_weights(self) -> None:
        """Put the weights in reading order; each thread calls this when they may have changed."""
        self.dense.load_weights()
        mine, packings = self._workspace(), self.dense.workspace().packings
        if mine.filled != packings:
            layout.fill(self.dense.weights[0], self.patches, mine.features)
            mine.filled = packings

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        if new_image:
            self._choose()
        if self.sleeps:
            return self._advance(first, last, new_image)
        sums = self.dense.run(first, last, new_image)
        self.reached = self.dense.reached
        made = self.reached - first
        self._made, self._computed = self._made + made, self._computed + made * self.units.A.size
        return sums

    def warm_up(self) -> None:
        """Compile by making no steps, and what `materialise` and new images call, on nothing."""
        dense, space = self.dense, self.dense.workspace()
        dense.warm_up()
        nothing, nowhere = space.shape._replace(ny=0, height=0), space.scratch.strips[:0]
        nothing_kept = self.lazy._replace(
            progress=np.zeros(1, "f4"), path_length=np.zeros(0, "f4"), wake_level=np.zeros(0, "f4")
        )
        scratch = (space.scratch._replace(strips=nowhere), self._workspace().scratches(self.patches, 1)[0])
        paste(self.filtered, nothing, nothing_kept.filtered)
        load_units(0, False, self.units, nothing_kept, nothing)
        model = self._model()._replace(shape=nothing)
        choose_direction(dense.images, nothing_kept, model, *scratch)
        materialise_potentials(0, 0, False, self.units, nothing_kept, model, *scratch)
        record = StepSums(np.zeros(0, bool), np.zeros((0, 3)))
        self._steps(None, 0, record, NO_LOOKS)

    def materialise(self) -> None:
        """Bring V up to date, on any thread; changes nothing that later steps depend on."""
        if self._behind:
            self.load_weights()
            self._write_potentials()

    def state_changed(self) -> None:
        """Go on from V as it is now; see `Stepper`."""
        self._known = False
        if self.sleeps:
            self.age[...] = 0

    def before_weight_change(self) -> None:
        """Bring V up to date and go on from it alone, for weights are about to change.

        The thread that made the steps, which has the weights, calls this.
        """
        if not self.sleeps:
            return
        if self._behind:
            self._write_potentials(reset=True)
        else:
            self._load_units(self._team(), reset=True)
        self.age[...] = 0

    def _choose(self) -> None:
        """Decide whether units may sleep while the new image is shown: not if many are active.

        This depends on the slice alone, so that it is the same on any rank and after a resume.
        """
        if np.count_nonzero(self.units.A) > self._most * self.units.A.size:
            self.materialise()
            self.age[...], self._known = AWAKE, False
        elif not self.sleeps:
            self.age[...] = 0

    def _advance(self, first: int, last: int, new_image: bool) -> Array:
        """Make lazy steps."""
        looks, team = self.dense.looks.within(first, last), self._team()
        due = self.probes.due(first, last)
        record = StepSums(due | looks.due if self.looks_inside else due, np.zeros((last - first, 3)))
        self._begin(new_image, team)
        made, self.age[...] = self._steps(team, -last % self.display, record, looks)
        self.reached = first + made
        crop(self.lazy.filtered, self.dense.workspace().shape, self.filtered)
        self._behind = True
        return record.sums[:, None]

    def _steps(self, team: ThreadTeam | None, beyond: int, record: StepSums, looks: Looks) -> tuple[int, int]:
        """Make the steps of `record`, or fewer, with `beyond` more to come in the display.

        Return their number and the age.
        """
        age, space = int(self.age[0]), self.dense.workspace()
        state = (self.dense.images, self.units, self.lazy, self._model(), age, beyond)
        if team is not None:
            return advance_lazily_in_rows(team, *state, record, looks, space.dictionary)
        scratch = (space.scratch, self._workspace().scratches(self.patches, 1)[0])
        made, age, computed = advance_lazily(*state, *scratch, record, looks, space.dictionary)
        self._made, self._computed = self._made + made, self._computed + computed
        return int(made), int(age)

    def _begin(self, new_image: bool, team: ThreadTeam | None) -> None:
        """Set the state that the steps go on from, if it is not there, and choose a direction."""
        reset = self.age[0] == 0
        if reset:
            self.filtered[...] = 0
        if reset or not self._known:
            paste(self.filtered, self.dense.workspace().shape, self.lazy.filtered)
        if not self._known:
            self._load_units(team, reset)
        if reset or new_image or not self._known:
            self._choose_direction(team)
            self.lazy.wasted[0], self._known = 0, True

    def _load_units(self, team: ThreadTeam | None, reset: bool) -> None:
        state = (reset, self.units, self.lazy, self.dense.workspace().shape)
        self._each_tile(team, lambda tile, _: load_units(tile, *state))

    def _choose_direction(self, team: ThreadTeam | None) -> None:
        ends = (self.dense.images, self.lazy, self._model())
        if team is None:
            scratch = self._workspace().scratches(self.patches, 1)[0]
            choose_direction(*ends, self.dense.workspace().scratch, scratch)
        else:
            choose_direction_in_rows(team, *ends)

    def _write_potentials(self, reset: bool = False) -> None:
        mine, space, team = self._workspace(), self.dense.workspace(), self._team()
        works = [space.scratch] if team is None else team.works
        scratches = mine.scratches(self.patches, 1) if team is None else team.scratches
        state = (int(self.age[0]), reset, self.units, self.lazy, self._model())

        def write(tile: int, thread: int) -> None:
            materialise_potentials(tile, *state, works[thread], scratches[thread])

        self._each_tile(team, write)
        self._behind = False

    def _model(self) -> LazyModel:
        features, shape = self._workspace().features, self.dense.workspace().shape
        return LazyModel(features, self.dense.loop.cell, self._decay, shape)

    def _team(self) -> ThreadTeam | None:
        """Return the threads that share this slice, if any do."""
        rows = self.dense.rows
        if rows is None:
            return None
        works = self.dense.workspace().scratches(rows.threads)
        return ThreadTeam(rows.pool, works, self._workspace().scratches(self.patches, rows.threads))

    def _each_tile(self, team: ThreadTeam | None, work: Callable[[int, int], object]) -> None:
        """Have `work` done for each tile, given its number and that of the thread."""
        if team is not None:
            team.each_tile(work)
            return
        for tile in range(len(self.dense.workspace().scratch.strips)):
            work(tile, 0)

    def _workspace(self) -> LazyWorkspace:
        """Return this thread's own workspace for this geometry."""
        workspaces: dict[Patches, LazyWorkspace] = _workspaces.__dict__.setdefault("by_patches", {})
        if self.patches not in workspaces:
            groups = self.dense.workspace().dictionary.groups
            workspaces[self.patches] = LazyWorkspace(self.patches, groups)
        return workspaces[self.patches]
