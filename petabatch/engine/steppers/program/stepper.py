"""The stepper of any network by its program: compiled, on the arrays of one slice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, zip_longest
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from petabatch.engine.features import Features
from petabatch.engine.pages import Pages
from petabatch.engine.recorder import Recorder
from petabatch.engine.step_records import StepRecords
from petabatch.engine.steppers.base import Binding, Rows, Stepper
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.engine.steppers.program.compiled import CompiledProgram, Section
from petabatch.engine.steppers.program.interpreted import InterpretedLayer
from petabatch.engine.steppers.program.lazy_codes import LazyCodes
from petabatch.engine.steppers.program.links import Link, links, tags_of
from petabatch.engine.steppers.program.slice import Places, ProgramSlice
from petabatch.engine.steppers.program.tables import SliceNumbers, Tables
from petabatch.engine.steppers.program.tables.rules import NORMS
from petabatch.engine.steppers.program.workspace import Workspace, thread_workspace
from petabatch.engine.steppers.timing import PROGRAM_STEPS, time_program_step
from petabatch.frozen import changed
from petabatch.kernels.cpu.program.look import STOPPED
from petabatch.kernels.cpu.program.whole import norm
from petabatch.lazy_property import lazy_property
from petabatch.network.plan import Plan
from petabatch.spec.weights import Learning
from petabatch.variable import Array


class Joined(NamedTuple):
    """What slices are advanced by together: a section, an interpreted layer, ..., a section."""

    slices: Sequence[Stepper]
    sections: Sequence[Section]
    between: Sequence[InterpretedLayer]
    links: Mapping[int, Link]
    """What ranks exchange in the steps, by the number of the array with the link."""


@dataclass(frozen=True)
class Tabulated:
    """The program of a plan in tables, with what it measures and records inside; for all its slices."""

    tables: Tables
    compiled: CompiledProgram
    places: Places
    numbers: SliceNumbers
    probes: StepProbes
    records: StepRecords

    @classmethod
    def of(cls, plan: Plan, features: Features) -> Tabulated:
        """Make the tables of a plan."""
        probes, records = StepProbes.of(plan, features), StepRecords.of(plan)
        together = plan.method.together
        tables = Tables(plan.graph, plan.program, probes.columns, together, records.copies, records.places)
        return cls(tables, CompiledProgram(tables), Places(tables), tables.slice_numbers, probes, records)

    def renumbered(self, plan: Plan, features: Features) -> Tabulated | None:
        """Return that of a plan that differs in numbers alone, None if it differs in more."""
        assert plan.model is not None
        known, own = plan.model.graph.network.probes, plan.graph.network.probes
        measured = self.probes.columns or own is not known
        probes = StepProbes.of(plan, features) if measured else self.probes
        numbers = self.tables.slice_numbers_of(plan.changes)
        if numbers is None or probes.columns != self.probes.columns:
            return None
        return changed(self, numbers=numbers, probes=probes)


class ProgramStepper(Stepper):
    """The steps of one slice by a program; arrays are updated in place."""

    def __init__(self, bound: Binding, made: Tabulated, pages: Pages) -> None:
        tables = made.tables
        super().__init__(bound, made.probes, tables.controlled)
        self.tables, self._records = tables, made.records
        self.slice = ProgramSlice(bound, tables, made.numbers, made.places, made.records, pages)
        self.compiled = made.compiled
        self.codes = LazyCodes(self.compiled, self.slice)
        self.team: Rows | None = None
        """Threads that work on the slice together, when there are more threads than slices."""
        self._recorded_together: tuple[Sequence[Stepper], StepProbes] | None = None
        """Slices that were recorded together, and their probes."""
        program = tables.program
        self._begins = bool(program.lazy or program.margins or tables.norms_of)
        """Whether steps start from more than the arrays of the state."""
        self._made = 0
        """Steps made so far."""

    @lazy_property
    def _joined(self) -> WeakKeyDictionary[Workspace, Joined]:
        """Of each thread, by its workspace: in short calls, groups go from one thread to another."""
        return WeakKeyDictionary()

    @lazy_property
    def passed(self) -> Collection[int]:
        """The recordings of layers that are made in every step; readers are made at the end of `run`."""
        readers = self.tables.program.readers
        columns = [term.layer in readers for term in self.probes.columns]
        return {
            index
            for index, weights in self.probes.recordings.items()
            if not any(reads and weight for reads, weight in zip(columns, weights, strict=True))
        } | self._records.recordings.keys()

    @property
    def recorded(self) -> Collection[int]:
        """The recordings that are made by the stepper; see `Stepper`."""
        return self.probes.recordings.keys() | self._records.recordings.keys()

    @property
    def looks_inside(self) -> bool:
        """Whether the program evaluates the gap of `run.until`; see `Stepper`."""
        return self.tables.program.look is not None

    @property
    def most_steps(self) -> int:
        """Most steps of a call, as many as there is room for to record; see `Stepper`."""
        return self._records.steps

    def warm_up(self) -> None:
        """Compile by making no steps."""
        space, rows = self._workspace, self.compiled.rows
        (section,) = self.compiled.sections(space, [self.slice], (0, len(rows)))
        nothing = np.zeros((0, 0), bool), np.zeros((1, 0, 0))
        self.compiled.advance(space, section, self.team, 0, 0, 0, False, *nothing)
        self.codes.warm_up(space)

    @property
    def kind(self) -> Hashable:
        """Slices are alike that are advanced together, or one after the other in one call; see `Stepper`."""
        tables = self.tables
        weights: tuple[int, ...] = ()
        if tables.slices == 1:
            if tables.calls or tables.links or tables.active:
                return self
            # a thread packs the weights of one slice, and lists the active units of one
            weights = tuple(id(self.slice.arrays[one.key]) for one in tables.weights.values())
        return id(tables.workspace_of), frozenset(self.probes.recordings), weights

    def share(self, rows: Rows) -> None:
        """Let threads make operations side by side if that is worth their waiting for each other."""
        if rows.threads > 1 and self.tables.worth_sharing:
            self.team = rows

    def unshare(self) -> None:
        """Work on one thread again."""
        self.team = None

    def load_weights(self) -> None:
        """Put the weights in reading order; each thread calls this when they may have changed."""
        self._workspace.load(self.slice.arrays, self.bound.backend.version)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        return self.run_together([self], first, last, new_image)

    def run_together(self, steppers: Sequence[Stepper], first: int, last: int, new_image: bool) -> Array:
        """Make the same steps of several slices; see `Stepper`."""
        slices = _programs(steppers)
        if self._begins:
            for one in slices:
                one.codes.start()
                if one.slice.margins.arrays:
                    one.slice.margins.begin(first)
        columns = len(self.probes.columns)
        watched = np.zeros((last - first, columns), bool)
        if columns:
            watched[self.probes.due(first, last)] = True
        found = np.zeros((len(slices), last - first, columns))
        if self.looks_inside:
            self._run_with_looks(slices, first, last, new_image, watched, found)
            return found.swapaxes(0, 1)
        space = self._workspace
        _, sections, between, linked = self._joined_with(slices, space)
        self.compiled.list_active(sections, first)
        if not between:
            self.compiled.advance(space, sections[0], self.team, first, last, last, new_image, watched, found)
            for exchanged in linked.values():
                exchanged.check()
            self._reach(slices, first, last)
            return found.swapaxes(0, 1)
        for number, step in enumerate(range(first + 1, last + 1)):
            sums, new = np.zeros((len(slices), 1, columns)), new_image and number == 0
            ends = (step - 1, step, last, new, watched[number : number + 1], sums)
            for section, after in zip_longest(sections, between):
                if len(section.rows):
                    self.compiled.advance(space, section, self.team, *ends)
                if after is not None:
                    after.advance(step)
            for exchanged in linked.values():
                exchanged.check()
            found[:, number] = sums[:, 0]
            self._reach(slices, step - 1, step)
        return found.swapaxes(0, 1)

    def _run_with_looks(
        self,
        slices: Sequence[ProgramStepper],
        first: int,
        last: int,
        new_image: bool,
        watched: np.ndarray,
        found: np.ndarray,
    ) -> None:
        """Make the steps of each slice up to the one in which it stops."""
        moving, step = list(range(len(slices))), first
        while moving and step < last:
            mine = [slices[n] for n in moving]
            space = self._workspace
            section = self._joined_with(mine, space).sections[0]
            part = np.zeros((len(mine), last - step, found.shape[2]))
            self.compiled.list_active([section], step)
            for one in mine:
                one.slice.look[STOPPED] = 0
            ends = (step, last, last, new_image and step == first)
            self.compiled.advance(space, section, self.team, *ends, watched[step - first :], part)
            stopped = [int(one.slice.look[STOPPED]) for one in mine]
            if self.tables.slices == 1:  # each has gone on to its own end
                for n, sums, at in zip(moving, part, stopped, strict=True):
                    made = at or last
                    found[n, : made - first] = sums[: made - step]
                    self._reach([slices[n]], step, made)
                return
            made = min((at for at in stopped if at), default=last)
            found[moving, step - first : made - first] = part[:, : made - step]
            self._reach(mine, step, made)
            moving, step = [n for n, at in zip(moving, stopped, strict=True) if not at], made

    def _joined_with(self, slices: Sequence[ProgramStepper], space: Workspace) -> Joined:
        """Return what these slices are advanced by on the thread of `space`; kept while they are the same."""
        known = self._joined.get(space)
        if known is None or known.slices != slices:
            calls = self.tables.calls
            ends = (0, *(at.row for at in calls), len(self.compiled.rows))
            between = []
            for at in calls:
                shape = self.tables.graph.network.layers[at.call.layer].shape
                drives = [space.slices_of(key, len(slices), shape) for key in at.drives]
                between.append(InterpretedLayer(at.call.layer, slices, drives))
            mine = [one.slice for one in slices]
            sections = self.compiled.sections(space, mine, *pairwise(ends))
            features, places = self.bound.deliveries.features, self.bound.backend.windows[-1].stop
            tags = tags_of(self.bound.lanes.start, places, len(self.tables.links))
            found = links(self.tables.links, features, tags, len(slices), space)
            linked = {self.tables.array(key): one for key, one in found.items()}
            for number, one in linked.items():
                one.place(sections, number)
            self._joined[space] = known = Joined(slices, sections, between, linked)
        return known

    @staticmethod
    def _reach(slices: Sequence[ProgramStepper], first: int, last: int) -> None:
        """Count steps first+1 .. last of slices."""
        for one in slices:
            one._made += last - first
            one.reached = one.slice.margins.reached = last

    def materialise(self) -> None:
        """Bring V of lazily evaluated codes up to date, on any thread."""
        if self.codes.behind:
            self.load_weights()
            self.codes.write_potentials(self._workspace)

    def state_changed(self) -> None:
        """Go on from V as it is now; see `Stepper`."""
        self.codes.forget()

    def before_weight_change(self) -> None:
        """Bring V up to date and go on from it alone, for weights are about to change.

        The thread that made the steps, which has the weights, calls this.
        """
        if self.codes.behind:
            self.codes.write_potentials(self._workspace)
        self.codes.forget()
        self.bound.backend.version += 1

    def record(
        self, steppers: Sequence[Stepper], recorder: Recorder, first: int, last: int, sums: Array
    ) -> None:
        """Record what steps first+1 .. last have measured and kept; see `Stepper`."""
        if not self.recorded:
            return
        slices = _programs(steppers)
        lanes = [one.bound.lanes.start for one in slices]
        if self._recorded_together is None or self._recorded_together[0] != slices:
            self._recorded_together = slices, StepProbes.together([one.probes for one in slices])
        self._recorded_together[1].write(recorder, lanes, first, last, sums)
        lists = [self._workspace.active_units(n) for n in range(len(slices))]
        self._records.write(recorder, lanes, first, last, [one.slice.own for one in slices], lists)

    def rest(self, recorder: Recorder, first: int, last: int) -> None:
        """Record steps first+1 .. last, in which the slice rests; see `Stepper`."""
        super().rest(recorder, first, last)
        self._records.repeat(recorder, self.bound.lanes, first, last, self.slice.arrays)

    def sums(self, step: int) -> Array:
        """Return the norms after `step`; see `Stepper`."""
        found = []
        for term in self.probes.columns:
            activity = self.bound.deliveries.histories[term.layer].at(step)
            found.append(norm(activity.reshape(-1), NORMS[term.norm]))
        return np.array(found)

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
        """Write the product of a connection that scatters shared patches, from the active units alone."""
        graph = self.tables.graph
        link, deliveries = graph.wirings[connection].link, self.bound.deliveries
        if link is None or not link.scatter or type(rule).tally is not Learning.tally:
            return False
        p = link.patches
        if not p.shared or p.y.margin or p.x.margin:
            return False
        code, error = deliveries.ends(connection, against, step)
        error, p = deliveries.surrounded(connection, error)
        self._workspace.product(p, code, error, product, counts)
        return True

    def computed(self) -> dict[str, float]:
        """Return the share of units computed in a step so far, of each code; see `Stepper`."""
        return self.codes.computed(self._made)

    def time_parts(self, steppers: Sequence[Stepper]) -> Mapping[str, float]:
        """Time the operations of a step one by one, each from the present state; see `Stepper`."""
        now, last = self.reached, self.reached + PROGRAM_STEPS
        slices = _programs(steppers)
        mine, space = [one.slice for one in slices], self._workspace
        watched = np.ones((PROGRAM_STEPS, len(self.probes.columns)), bool)
        ends = (now, last, last, False, watched, np.zeros((len(slices), *watched.shape)))
        rows = ((row, row + 1) for row in range(len(self.compiled.rows)))
        sections = self.compiled.sections(space, mine, *rows)
        jobs: list[tuple[str, Callable[[], object]]] = [
            (label, partial(self.compiled.advance, space, section, self.team, *ends))
            for label, section in zip(self.tables.labels, sections, strict=True)
        ]
        joined = self._joined_with(slices, space)
        for number, one in joined.links.items():
            one.place(sections, number)
        for at, job in zip(self.tables.calls, joined.between, strict=True):
            jobs.append((at.call.label, partial(_each, job.advance, range(now + 1, last + 1))))
        self.compiled.list_active(sections, now)
        changed = [array for one in mine for array in one.changing]
        return time_program_step(jobs, changed, len(slices))

    @property
    def _workspace(self) -> Workspace:
        """This thread's own workspace for this program."""
        return thread_workspace(self.tables)


def _programs(steppers: Sequence[Stepper]) -> Sequence[ProgramStepper]:
    """Return steppers of one `kind`, which programs have among themselves."""
    return cast(Sequence[ProgramStepper], steppers)


def _each(advance: Callable[[int], object], steps: Sequence[int]) -> None:
    for step in steps:
        advance(step)
