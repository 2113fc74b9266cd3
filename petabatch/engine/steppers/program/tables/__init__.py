"""The program of a step in tables, for its compiled loop: arrays by number, and where they lie."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from petabatch.engine.steppers.program.tables import lazy, rooms, synapses, updates
from petabatch.engine.steppers.program.tables.items import items_of, parts_of
from petabatch.engine.steppers.program.tables.rules import NORMS
from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.transport import Copy
from petabatch.kernels.operations.updates import Measure
from petabatch.network.graph import Graph
from petabatch.network.operations import Call, Control, LazyUpdate, Program, SynapticEvents, Update
from petabatch.network.stages import find_stages, side_by_side
from petabatch.spec.compiled import Term

_WRITE: Mapping[type[Operation], Callable[[Writer, Any], None]] = {
    Update: updates.update,
    Control: updates.control,
    Call: updates.call,
    LazyUpdate: lazy.lazy_update,
    SynapticEvents: synapses.synaptic_events,
}
"""What writes the rows of operations that are made of several; others are compiled as they are declared."""


class SliceNumbers(NamedTuple):
    """The numbers of a slice, in which it may differ from others that have the same tables."""

    rows: np.ndarray
    """Of each operation, float64 `[rows, NUMBERS]`."""
    factors: np.ndarray
    """Of each source that is summed up, in the precision of the run."""


class Tables(Writer):
    """A program in tables, for any slice of any network with this graph; arrays by number."""

    def __init__(
        self,
        graph: Graph,
        program: Program,
        measured: Sequence[Term],
        slices: int,
        recorded: Sequence[Copy],
        kept: Mapping[str, int],
    ) -> None:
        """Make the tables; `slices` are advanced in one call at most, `recorded` ends each step.

        `kept` says of how many steps lists of a layer's active units are read after a call.
        """
        super().__init__(graph, program, slices)
        self.kept = kept
        self._like: Tables | None = None
        self.threads = threading.local()
        """What each thread keeps for the program."""
        self._spans: list[tuple[int, int]] = []
        """The rows of each operation."""
        self._sums: list[int] = []
        """The first of its sources that are summed up."""
        for operation in program.operations:
            begin, first = len(self.rows), len(self.sources)
            _WRITE.get(type(operation), rooms.add)(self, operation)
            self._spans.append((begin, len(self.rows)))
            self._sums.append(first)
        for column, term in enumerate(measured):
            rooms.add(self, Measure(f"layers/{term.layer}/A", column, NORMS[term.norm]))
        for one in (*recorded, *([] if program.look is None else [program.look])):
            rooms.add(self, one)
        self.look = 0 if program.look is None else self.array(program.look.state)
        """The array of what looks have noted, 0 if there are none."""
        self.worth_sharing = bool(side_by_side(graph, program))
        """Whether there is enough to do side by side."""

    @cached_property
    def slice_numbers(self) -> SliceNumbers:
        """Those of the program that it is made of."""
        rows = np.array(self.numbers, np.float64).reshape(-1, t.NUMBERS)
        return SliceNumbers(rows, np.array(self.factors, self.real))

    @cached_property
    def kept_arrays(self) -> list[tuple[str, int, bool]]:
        """The arrays that are not scratch: key, number, and whether they have places for several steps."""
        return [
            (key, number, key.endswith(("/A", "/pending")) or key.startswith(("margins/", "records/")))
            for key, number in self.numbers_of.items()
            if not key.startswith("scratch/")
        ]

    @cached_property
    def items(self) -> list[tuple[int, ...]]:
        """What threads that make the steps of a slice together take, see `kernels/cpu/program/team.py`."""
        layers, operations = self.graph.network.layers, self.program.operations
        parts = [
            parts_of(one, self.made[begin:end], layers)
            for one, (begin, end) in zip(operations, self._spans, strict=True)
        ]
        end = self._spans[-1][1] if self._spans else 0
        return items_of(self._spans, parts, find_stages(self.graph, self.program), (end, len(self.rows)))

    def slice_numbers_of(self, changes: Iterable[tuple[int, Update]]) -> SliceNumbers | None:
        """Return those of a program with other operations in some places, None if it differs in more."""
        all_numbers, all_factors = (array.copy() for array in self.slice_numbers)
        for place, one in changes:
            made = updates.numbers_of_row(self.graph, self.program.operations[place], one)
            if made is None:
                return None
            (numbers, factors), (_, end), first = made, self._spans[place], self._sums[place]
            all_numbers[end - 1, : len(numbers)] = numbers
            all_factors[first : first + len(factors)] = factors
        return SliceNumbers(all_numbers, all_factors)

    @property
    def workspace_of(self) -> Tables:
        """The program whose workspaces this one uses: its own, or another of the same structure."""
        return self._like or self

    def share_workspace(self, other: Tables) -> bool:
        """Use the workspaces of another program if it differs in numbers alone; return whether it does."""
        if self._structure() != other._structure():
            return False
        self._like = other
        return True

    def _structure(self) -> tuple[object, ...]:
        return (
            self.rows, self.sources, self.drives, self.scratch, self.constants, self.lists, self.geometries,
            self.weights, self.turned, self.numbers_of, self.own, self.read_by_rows, self.slices, self.inside,
            [(at.row, at.call.out, at.drives) for at in self.calls],
        )  # fmt: skip
