"""The stepper of any network by its program: compiled, on the arrays of one slice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from petabatch.engine.recorder import Recorder
from petabatch.engine.step_records import StepRecords
from petabatch.engine.steppers.base import Binding, Rows, Stepper, StepTimes
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.engine.steppers.program.interpreted import InterpretedLayer
from petabatch.engine.steppers.program.lazy_codes import LazyCodes
from petabatch.engine.steppers.program.tables import Tables
from petabatch.engine.steppers.program.tables.rules import NORMS
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.gradient import dictionary_gradient, gradient_scratch
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program.loop import advance
from petabatch.kernels.cpu.program.team import ALL, ITEM, TICKETS
from petabatch.kernels.cpu.program.whole import norm
from petabatch.kernels.cpu.rows import raised_in
from petabatch.network.plan import Plan
from petabatch.random import stream_pool
from petabatch.spec.part_errors import calling
from petabatch.spec.weights import Learning
from petabatch.variable import Array

_workspaces = threading.local()
_NONE_LEFT = 2**62
"""Tickets taken and done, where none is left to take or to wait for."""
_TIMED_STEPS, _TURNS = 20, 7
"""Steps in which an operation is timed alone, and repetitions, of which the fastest counts."""


class Section(NamedTuple):
    """Rows of a program, and the tables of the slices that are advanced in one call, on one thread."""

    rows: np.ndarray
    numbers: np.ndarray
    factors: np.ndarray
    arrays: np.ndarray


class Joined(NamedTuple):
    """What slices are advanced by together: a section, an interpreted layer, ..., a section."""

    slices: Sequence[Stepper]
    space: Workspace
    sections: Sequence[Section]
    layers: Sequence[InterpretedLayer]


def make_tables(plan: Plan) -> tuple[Tables, StepProbes, StepRecords]:
    """Return the program of a plan in tables, with what it measures and records inside; for all slices."""
    probes, records, method = StepProbes.of(plan), StepRecords.of(plan), plan.method
    tables = Tables(plan.graph, method.program, probes.columns, method.together, records.copies)
    return tables, probes, records


class ProgramStepper(Stepper):
    """The steps of one slice by a program; arrays are updated in place."""

    def __init__(self, bound: Binding, tables: Tables, probes: StepProbes, records: StepRecords) -> None:
        super().__init__(bound, probes, tables.controlled)
        self.tables, self.arrays, self._records = tables, bound.arrays, records
        self._team: Rows | None = None
        """Threads that work on this slice together, when there are more threads than slices."""
        self._items = np.array(tables.items, np.int64).reshape(-1, ITEM)
        self._rows = np.array(tables.rows, np.int64).reshape(-1, t.COLUMNS)
        self._numbers = np.array(tables.numbers, np.float64).reshape(-1, t.NUMBERS)
        self._sources = np.array(tables.sources, np.int64).reshape(-1, 3)
        self._factors = np.array(tables.factors, np.float32)
        self._margins = {
            name: np.zeros((1, bound.plan.graph.depth[name], *shape), np.float32)
            for name, shape in tables.program.margins.items()
        }
        self._shown = -1
        """The step whose images are in the margins."""
        self.own: dict[str, np.ndarray] = {
            **{key: np.zeros(size, kind) for key, (size, kind) in tables.own.items()},
            **{f"margins/{name}": array for name, array in self._margins.items()},
            **records.arrays(),
            **{
                key: stream_pool(bound.ctx.seed, key.removeprefix("random/"), bound.ctx.slices[0])
                for key in tables.numbers_of
                if key.startswith("random/")
            },
        }
        """What is kept from run to run, but need not be."""
        self._bound = np.zeros((len(tables.numbers_of), 3), np.int64)
        self._drives = np.array(tables.drives, np.int64).reshape(-1, t.DRIVES)
        self._joined: Joined | None = None
        self._made = 0
        """Steps made so far."""
        for key, number in tables.numbers_of.items():
            array: Any = self.arrays.get(key, self.own.get(key))
            if array is not None:
                assert array.flags.c_contiguous
                deep = key.endswith("/A") or key.startswith(("margins/", "records/"))
                depth = array.shape[1] if deep else 1
                self._bound[number] = array.ctypes.data, array.size // depth, depth
        self.codes = LazyCodes(tables, self.arrays, self.own, self._bound, self._rows, self._drives)

    @property
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
    def most_steps(self) -> int:
        """Most steps of a call, as many as there is room for to record; see `Stepper`."""
        return self._records.steps

    def warm_up(self) -> None:
        """Compile by making no steps."""
        (section,) = self._sections([self], (0, len(self._rows)))
        self._make(section, 0, 0, 0, False, np.zeros((0, 0), bool), np.zeros((1, 0, 0)))
        self.codes.warm_up(self._workspace)

    def joins(self, leader: Stepper) -> bool:
        """Return whether the programs are alike and are advanced in one call; see `Stepper`."""
        alike = isinstance(leader, ProgramStepper) and self.tables.workspace_of is leader.tables.workspace_of
        return alike and self.tables.slices > 1

    def share(self, rows: Rows) -> None:
        """Let threads make operations side by side if that is worth their waiting for each other."""
        if rows.threads > 1 and self.tables.worth_sharing:
            self._team = rows

    def unshare(self) -> None:
        """Work on one thread again."""
        self._team = None

    def load_weights(self) -> None:
        """Put the weights in reading order; each thread calls this when they may have changed."""
        self._workspace.load(self.arrays)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        return self.run_together([self], first, last, new_image)[0]

    def run_together(
        self, steppers: Sequence[Stepper], first: int, last: int, new_image: bool
    ) -> Sequence[Array]:
        """Make the same steps of several slices; see `Stepper`."""
        slices = [one for one in steppers if isinstance(one, ProgramStepper)]
        for one in slices:
            one._begin(first, last)
        due, columns = self.probes.due(first, last), len(self.probes.columns)
        watched = np.repeat(due[:, None], columns, axis=1)
        found = np.zeros((len(slices), last - first, columns))
        _, _, sections, layers = self._joined_with(slices)
        if not layers:
            self._make(sections[0], first, last, last, new_image, watched, found)
            for one in slices:
                one.reached = last
            return list(found[:, :, None])
        for number, step in enumerate(range(first + 1, last + 1)):
            sums, new = np.zeros((len(slices), 1, columns)), new_image and number == 0
            ends = (step - 1, step, last, new, watched[number : number + 1], sums)
            for section, layer in zip_longest(sections, layers):
                if len(section.rows):
                    self._make(section, *ends)
                if layer is not None:
                    layer.advance(step)
            found[:, number] = sums[:, 0]
            for one in slices:
                one.reached = step
        return list(found[:, :, None])

    def _sections(self, slices: Sequence[ProgramStepper], *spans: tuple[int, int]) -> list[Section]:
        """Return parts of the program for slices that are advanced in one call, on this thread."""
        factors = np.stack([one._factors for one in slices])
        bound = np.stack([one._bound for one in slices])
        arrays = np.where(bound != 0, bound, self._workspace.arrays[: len(slices)])
        return [
            Section(
                self._rows[begin:end],
                np.stack([one._numbers[begin:end] for one in slices]),
                factors,
                arrays,
            )
            for begin, end in spans
        ]

    def _joined_with(self, slices: Sequence[ProgramStepper]) -> Joined:
        """Return what these slices are advanced by on this thread; kept while both stay the same."""
        space, known = self._workspace, self._joined
        if known is None or known.space is not space or known.slices != slices:
            calls, bounds = self.tables.calls, [one.bound for one in slices]
            ends = (0, *(at.row for at in calls), len(self._rows))
            layers = []
            for at in calls:
                shape = self.tables.graph.network.layers[at.call.layer].shape
                drives = [space.slices_of(key, len(slices), shape) for key in at.drives]
                layers.append(InterpretedLayer(at.call.layer, bounds, drives))
            known = Joined(slices, space, self._sections(slices, *pairwise(ends)), layers)
            self._joined = known
        return known

    def _begin(self, first: int, last: int) -> None:
        """Prepare what steps first+1 .. last start from."""
        self.codes.start()
        self._made += last - first
        self._show_margins(first)
        self._shown = last

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

    def _make(
        self,
        section: Section,
        first: int,
        last: int,
        final: int,
        new_image: bool,
        watched: np.ndarray,
        found: np.ndarray,
    ) -> None:
        """Make operations of steps first+1 .. last of a run to step `final`."""
        space, (rows, numbers, factors, arrays) = self._workspace, section
        several = slice(None) if len(arrays) > 1 else slice(0)
        items, tickets, own = np.array([[0, len(rows), 0, 0, ALL]]), np.zeros(TICKETS, np.int64), [arrays]
        if self._team is not None and len(rows) == len(self._rows) and len(arrays) == 1:
            tables = space.for_threads(self._team.threads)
            items, own = self._items, [np.where(self._bound != 0, self._bound, one[:1]) for one in tables]

        def work(arrays: np.ndarray) -> None:
            try:
                advance(
                    rows, numbers, self._sources, factors, self._drives, arrays, space.shapes, first, last,
                    final, new_image, watched, found, space.places[several], space.room[several], items,
                    tickets,
                )  # fmt: skip
            except BaseException:
                tickets[:] = _NONE_LEFT  # so that no thread waits for this one
                raise

        with self._naming():
            if len(own) == 1 or self._team is None:
                work(own[0])
                return
            tasks = [self._team.pool.submit(work, arrays) for arrays in own]
            wait(tasks)
            for task in tasks:
                task.result()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the layer whose row function raises an error, or all that share the function."""
        try:
            yield
        except Exception as error:
            functions = self.tables.row_functions.items()
            names = [name for name, row in functions if raised_in(row.function, error)]
            if not names:
                raise
            layer = self.tables.graph.network.layers[names[0]]
            with calling(layer, " or ".join(f"layers.{name}" for name in names)):
                raise

    def _show_margins(self, first: int) -> None:
        """Have the images that step first + 1 sees in their places, with their margins."""
        for name, (places,) in self._margins.items():
            depth, margin = len(places), self.bound.signals.margins[name]
            begin = first + 1 if self._shown == first else first + 2 - depth
            for step in range(begin, first + 2):
                places[step % depth] = margin.at(step)[0] if step >= 0 else 0

    def record(self, recorder: Recorder, first: int, last: int, sums: Array) -> None:
        """Record what steps first+1 .. last have measured and kept; see `Stepper`."""
        super().record(recorder, first, last, sums)
        self._records.write(recorder, self.bound.lanes, first, last, self.own)

    def rest(self, recorder: Recorder, first: int, last: int) -> None:
        """Record steps first+1 .. last, in which the slice rests; see `Stepper`."""
        super().rest(recorder, first, last)
        self._records.repeat(recorder, self.bound.lanes, first, last, self.arrays)

    def sums(self, step: int) -> Array:
        """Return the norms after `step`; see `Stepper`."""
        found = []
        for term in self.probes.columns:
            activity = self.bound.signals.histories[term.layer].at(step)
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
        link, delay = graph.wirings[connection].link, graph.network.connections[connection].delay
        if link is None or not link.scatter or type(rule).tally is not Learning.tally:
            return False
        p = link.patches
        if not p.shared or p.y.margin or p.x.margin:
            return False
        spaces = self._workspace.products
        if p not in spaces:
            spaces[p] = layout.shape(p), layout.scratch(p), gradient_scratch(p)
        s, scratch, sums = spaces[p]
        histories = self.bound.signals.histories
        code = histories[pre].at(step - delay).reshape(-1)
        error = histories[against].at(step).reshape(s.height, s.width)
        counts = None if counts is None else counts.reshape(p.features, -1)
        product = product.reshape(p.features, p.length)
        dictionary_gradient(code, error, s, scratch, sums, product, counts)
        return True

    def computed(self) -> dict[str, float]:
        """Return the share of units computed in a step so far, of each code; see `Stepper`."""
        return self.codes.computed(self._made)

    def time_parts(self, steppers: Sequence[Stepper]) -> StepTimes:
        """Time the operations of a step one by one, each from the present state; see `Stepper`."""
        now, last = self.reached, self.reached + _TIMED_STEPS
        slices = [one for one in steppers if isinstance(one, ProgramStepper)]
        changing = [one._known[key] for one in slices for key in self.tables.numbers_of if key in one._known]
        kept = [array.copy() for array in changing]
        watched = np.ones((_TIMED_STEPS, len(self.probes.columns)), bool)
        sums = np.zeros((len(slices), *watched.shape))

        def seconds(job: Callable[[], object]) -> float:
            for array, before in zip(changing, kept, strict=True):
                array[...] = before
            begin = time.thread_time()
            job()
            return (time.thread_time() - begin) / _TIMED_STEPS / len(slices)

        jobs: list[tuple[str, Callable[[], object]]] = []
        sections = self._sections(slices, *((row, row + 1) for row in range(len(self._rows))))
        for section, label in zip(sections, self.tables.labels, strict=True):
            jobs.append((label, partial(self._make, section, now, last, last, False, watched, sums)))
        if self.tables.calls:
            layers = self._joined_with(slices).layers
            for at, layer in zip(self.tables.calls, layers, strict=True):
                jobs.append((at.call.label, partial(_each, layer.advance, range(now + 1, last + 1))))
        times: dict[str, float] = {}
        for label, job in jobs:
            times[label] = times.get(label, 0.0) + min(seconds(job) for _ in range(_TURNS))
        return StepTimes(times)

    @property
    def _known(self) -> dict[str, Array]:
        """The arrays that a step may change."""
        return {**self.arrays, **{key: self.own[key] for key in self.tables.own}}

    @property
    def _workspace(self) -> Workspace:
        """This thread's own workspace for this program."""
        spaces: WeakKeyDictionary[Tables, Workspace] = _workspaces.__dict__.setdefault(
            "by_tables", WeakKeyDictionary()
        )
        tables = self.tables.workspace_of
        if tables not in spaces:
            spaces[tables] = Workspace(tables)
        return spaces[tables]


def _each(advance: Callable[[int], object], steps: Sequence[int]) -> None:
    for step in steps:
        advance(step)
