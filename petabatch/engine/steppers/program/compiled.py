"""Calls of the compiled loop of a program: for several slices, or by several threads that share one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from functools import cached_property
from typing import NamedTuple, NoReturn

import numpy as np

from petabatch.engine.steppers.base import Rows
from petabatch.engine.steppers.program.slice import ProgramSlice
from petabatch.engine.steppers.program.tables import Tables
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.kernels.cpu.ahead import compile_missing
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program.abreast import begin_call, hand_over
from petabatch.kernels.cpu.program.loop import advance, advance_each
from petabatch.kernels.cpu.program.records import LIST, SCATTER, address_of_operation, name_of
from petabatch.kernels.cpu.program.synapses import list_before
from petabatch.kernels.cpu.program.team import ALL, ITEM, TICKETS
from petabatch.kernels.cpu.program.views import Arrays
from petabatch.kernels.cpu.rows import raised_in
from petabatch.kernels.operations.fields import HEADER
from petabatch.spec.part_errors import calling

_FEW = 10
"""Steps of a call that are too few to sum up synapses in several slices at once."""
_NONE_LEFT = 2**62
"""Tickets taken and done, where none is left to take or to wait for."""


class Section(NamedTuple):
    """Rows of a program, and the tables of the slices that are advanced in one call, on one thread."""

    rows: np.ndarray
    numbers: np.ndarray
    factors: np.ndarray
    """As bytes, `[slices, bytes]`."""
    addresses: np.ndarray
    """Of the arrays of the slices; 0 of scratch."""
    arrays: np.ndarray
    """The same, with the scratch of the thread."""


class CompiledProgram:
    """A program in the arrays that its compiled loop takes; what differs between slices is in `Section`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        width = max(map(len, tables.drives), default=0)
        self.drives = np.array(tables.drives, np.int64).reshape(len(tables.drives), width)
        self._sources = np.array(tables.sources, np.int64).reshape(-1, 3)
        self._real = np.dtype(tables.real).type
        self._advance = advance if tables.slices > 1 else advance_each

    @cached_property
    def _items(self) -> np.ndarray:
        """What threads that work on a slice together take."""
        return np.array(self.tables.items, np.int64).reshape(-1, ITEM)

    @cached_property
    def rows(self) -> np.ndarray:
        """The rows of the program; operations that are not compiled yet are compiled."""
        given, made, real = self.tables.rows, self.tables.made, self.tables.real
        rows = np.zeros((len(given), max(map(len, given), default=HEADER)), np.int64)
        for row, columns in zip(rows, given, strict=True):
            row[: len(columns)] = columns
        several = rows[:, t.TOGETHER] > 0
        alone = [(type(one), False) for one in made]
        together = [(type(one), True) for one, both in zip(made, several, strict=True) if both]
        compile_missing({name_of(*one, real) for one in (*alone, *together)} | self._others)
        rows[:, t.KERNEL] = [address_of_operation(*one, real) for one in alone]
        rows[several, t.TOGETHER] = [address_of_operation(*one, real) for one in together]
        return rows

    @cached_property
    def _abreast(self) -> bool:
        """Whether synapses are summed up in several slices at once."""
        return bool(np.any((self.rows[:, t.CODE] == SCATTER) & (self.rows[:, t.TOGETHER] != 0)))

    @property
    def _others(self) -> set[str]:
        """The kernels that are called beside the operations."""
        real = self.tables.real
        names = {"advance" if self.tables.slices > 1 else "advance each", f"same {real}"}
        if self.tables.lazy_rows:
            names.add("materialise")
        if self.tables.active:
            names |= {f"list_before {real}", f"begin_call {real}", f"hand_over {real}"}
        if self.tables.graph.plastic:
            names |= {f"{name} {real}" for name in ("gradient", "products", "counts", "largest", "add")}
        return names

    def sections(
        self, space: Workspace, slices: Sequence[ProgramSlice], *spans: tuple[int, int]
    ) -> list[Section]:
        """Return the rows of each span for slices that are advanced in one call, on the thread of `space`."""
        factors = np.stack([one.factors for one in slices]).view(np.uint8)
        addresses = np.stack([one.addresses for one in slices])
        arrays = np.where(addresses != 0, addresses, space.arrays[: len(slices)])
        return [
            Section(
                self.rows[begin:end],
                np.stack([one.numbers[begin:end] for one in slices]),
                factors,
                addresses,
                arrays,
            )
            for begin, end in spans
        ]

    def list_active(self, sections: Sequence[Section], step: int) -> None:
        """List the active units of the steps up to `step`, which later ones look back to."""
        if self.tables.active:
            for section in sections:
                list_before(section.rows, self._typed(section.arrays), step)

    def advance(
        self,
        space: Workspace,
        section: Section,
        team: Rows | None,
        first: int,
        last: int,
        final: int,
        new_image: bool,
        watched: np.ndarray,
        found: np.ndarray,
    ) -> None:
        """Make operations of steps first+1 .. last of a run to step `final`.

        A `team` of threads works on a slice together.
        """
        rows, numbers, factors, addresses, arrays = section
        several = slice(None) if len(arrays) > 1 else slice(0)
        items, tickets, own = np.array([[0, len(rows), 0, 0, ALL]]), np.zeros(TICKETS, np.int64), [arrays]
        whole, abreast = len(rows) == len(self.rows), self._abreast and len(arrays) > 1
        if abreast and last - first < _FEW:
            rows, abreast = _synapses_alone(rows), False
        if abreast:
            begin_call(rows, self._typed(arrays), first)
        looks = self.tables.look if whole else 0  # an operation alone stops at none
        if team is not None and whole and len(arrays) == 1:
            tables = space.for_threads(team.threads)
            items, own = self._items, [np.where(addresses != 0, addresses, one[:1]) for one in tables]

        def work(arrays: np.ndarray) -> None:
            try:
                self._advance(
                    rows, numbers, self._sources, factors, self.drives, arrays, space.shapes, first, last,
                    final, new_image, watched, found, space.places[several], space.room[several], items,
                    tickets, looks,
                )  # fmt: skip
            except BaseException:
                tickets[:] = _NONE_LEFT  # so that no thread waits for this one
                raise

        try:
            if len(own) == 1 or team is None:
                work(own[0])
                if abreast:
                    hand_over(rows, self._typed(arrays))
                return
            tasks = [team.pool.submit(work, arrays) for arrays in own]
            wait(tasks)
            for task in tasks:
                task.result()
        except Exception as error:
            self._raise_named(error)

    def _typed(self, arrays: np.ndarray) -> Arrays:
        """Return a table of arrays as kernels of the run's precision take it."""
        return Arrays(arrays, self._real)

    def _raise_named(self, error: Exception) -> NoReturn:
        """Raise an error, naming the layer whose row function raised it, or all that share the function."""
        functions = self.tables.row_functions.items()
        names = [name for name, row in functions if raised_in(row.function, error)]
        if not names:
            raise error
        layer = self.tables.graph.network.layers[names[0]]
        with calling(layer, " or ".join(f"layers.{name}" for name in names)):
            raise error


def _synapses_alone(rows: np.ndarray) -> np.ndarray:
    """Return rows in which synapses are summed up slice by slice."""
    found = rows.copy()
    found[np.isin(found[:, t.CODE], (SCATTER, LIST)), t.TOGETHER] = 0
    return found
