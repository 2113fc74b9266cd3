"""A slice as its program sees it: the addresses of its arrays, and the numbers of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from petabatch.engine.pages import Pages
from petabatch.engine.step_records import StepRecords
from petabatch.engine.steppers.base import Binding
from petabatch.engine.steppers.program.margins import Margins
from petabatch.engine.steppers.program.tables import SliceNumbers, Tables
from petabatch.engine.steppers.program.tables.writer import TRAIN
from petabatch.random import stream_pool
from petabatch.variable import Array


class ProgramSlice:
    """The arrays of a slice, which a program updates in place, and what differs from other slices besides."""

    def __init__(
        self,
        bound: Binding,
        tables: Tables,
        numbers: SliceNumbers,
        places: Places,
        records: StepRecords,
        pages: Pages,
    ) -> None:
        self._tables, self.arrays = tables, bound.arrays
        self.numbers, self.factors = numbers
        self.margins = Margins(bound, tables.program.margins)
        self.own: dict[str, np.ndarray] = {
            **{key: pages.zeros((size,), kind) for key, (size, kind) in tables.own.items()},
            **{f"margins/{name}": array for name, array in self.margins.arrays.items()},
            **records.arrays(),
            **{
                key: stream_pool(bound.ctx.seed, key.removeprefix("random/"), bound.ctx.slices[0])
                for key, _, _ in tables.kept_arrays
                if key.startswith("random/")
            },
            **_trains(bound, tables),
        }
        """What is kept from run to run, but need not be."""
        self.addresses = places.of(bound, self.own)
        """Address, size and depth of each array by its number; 0 of scratch, which belongs to a thread."""

    @property
    def look(self) -> np.ndarray:
        """What the evaluation of the gap has noted."""
        return self.own["own/look"]

    @property
    def changing(self) -> list[Array]:
        """The arrays that a step may change, apart from recordings and images."""
        known = {**self.arrays, **{key: self.own[key] for key in self._tables.own}}
        return [known[key] for key in self._tables.numbers_of if key in known]


class Places:
    """Where the arrays of slices are; in a state they lie slice after slice, so it is looked up once."""

    def __init__(self, tables: Tables) -> None:
        self._kept, self._count = tables.kept_arrays, len(tables.numbers_of)
        self._known: tuple[int, np.ndarray, np.ndarray] | None = None
        """The place of a slice, its table, and by how much that of the next differs."""

    def of(self, bound: Binding, own: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return address, size and depth of each array of a slice by its number, with its `own` arrays."""
        if self._known is None:
            self._known = bound.lanes.start, self._table(bound.arrays), self._steps(bound)
        first, table, steps = self._known
        found: np.ndarray = table + steps * (bound.lanes.start - first)
        return found + self._table(own) if own else found

    def _steps(self, bound: Binding) -> np.ndarray:
        """Return by how much the table of the next slice differs."""
        steps, variables = np.zeros((self._count, 3), np.int64), bound.plan.variables
        for key, number, _ in self._kept:
            if key in bound.arrays and variables[key].per == "slice":
                steps[number, 0] = bound.arrays[key].strides[0]
        return steps

    def _table(self, arrays: Mapping[str, Array]) -> np.ndarray:
        table = np.zeros((self._count, 3), np.int64)
        for key, number, deep in self._kept:
            array: Any = arrays.get(key)
            if array is not None:
                assert array.flags.c_contiguous
                depth = array.shape[1] if deep else 1
                table[number] = array.__array_interface__["data"][0], array.size // depth, depth
        return table


def _trains(bound: Binding, tables: Tables) -> dict[str, np.ndarray]:
    """Return the times and units of the spikes that layers are given, by key."""
    found: dict[str, np.ndarray] = {}
    for name, train in tables.trains.items():
        times, units = train(bound.ctx.slices[0])
        found |= {f"{TRAIN}{name}/times": times, f"{TRAIN}{name}/units": units}
    return found
