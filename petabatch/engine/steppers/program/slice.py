"""A slice as its program sees it: the addresses of its arrays, and the numbers of its operations."""

from __future__ import annotations

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
        self, bound: Binding, tables: Tables, numbers: SliceNumbers, records: StepRecords, pages: Pages
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
        self.addresses = np.zeros((len(tables.numbers_of), 3), np.int64)
        """Address, size and depth of each array by its number; 0 of scratch, which belongs to a thread."""
        for key, number, deep in tables.kept_arrays:
            array: Any = self.arrays.get(key, self.own.get(key))
            if array is not None:
                assert array.flags.c_contiguous
                depth = array.shape[1] if deep else 1
                self.addresses[number] = array.__array_interface__["data"][0], array.size // depth, depth

    @property
    def look(self) -> np.ndarray:
        """What the evaluation of the gap has noted."""
        return self.own["own/look"]

    @property
    def changing(self) -> list[Array]:
        """The arrays that a step may change, apart from recordings and images."""
        known = {**self.arrays, **{key: self.own[key] for key in self._tables.own}}
        return [known[key] for key in self._tables.numbers_of if key in known]


def _trains(bound: Binding, tables: Tables) -> dict[str, np.ndarray]:
    """Return the times and units of the spikes that layers are given, by key."""
    found: dict[str, np.ndarray] = {}
    for name, train in tables.trains.items():
        times, units = train(bound.ctx.slices[0])
        found |= {f"{TRAIN}{name}/times": times, f"{TRAIN}{name}/units": units}
    return found
