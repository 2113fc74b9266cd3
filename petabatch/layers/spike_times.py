"""Given spike times as stimuli, from arrays and files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.clock import Clock
from petabatch.errors import InputError, did_you_mean
from petabatch.kernels.spike_times import EARLY
from petabatch.regular_files import open_regular, reason, regular
from petabatch.sources.files import TEXT, ZIP, kind_of
from petabatch.sources.memory import Data
from petabatch.sources.npz import NPZ_ERRORS, read_npz
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.memory import InMemory
from petabatch.spec.model import Finite
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.paths import FilePath
from petabatch.variable import Array

_EXPECTED = "rows of time, unit and, where slices differ, slice"
_IN_FILE = f"a .npz file with arrays time, unit and perhaps slice, or a text file of {_EXPECTED}"
_NAMES = ("time", "unit", "slice")


class Train(NamedTuple):
    """The spikes of a slice, by time."""

    times: np.ndarray
    """float64, in the unit of `run.dt`."""
    units: np.ndarray
    """int32, numbered by row, column and feature."""


class SpikeTimes(Layer):
    """Spikes at given times: A is the number of spikes of a unit in a step.

    A spike at time t is one of step t / dt + 1, rounded down but for a thousandth of a step, so that one at
    time 0 is in the first step. Others see it in the next step at the earliest, as the spikes of layers of
    type `neurons`. Units are numbered by row, column and feature.
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {}
    later: ClassVar[bool] = True
    type: Literal["spike_times"] = "spike_times"
    spikes: Annotated[tuple[tuple[Finite, ...], ...] | Data | None, Field(union_mode="left_to_right")] = None
    """Rows of time, unit and, where slices differ, slice: `[[0.5, 0], [2.0, 1]]`; in Python an array as
    well. Times are in the unit of `run.dt`; without the third column all slices have the same spikes."""
    path: FilePath | None = None
    """A file of these in place of `spikes`: `.npz` with arrays `time`, `unit` and perhaps `slice`, or text
    with such rows, whose columns are separated by spaces or commas; `#` begins a comment."""

    @model_validator(mode="after")
    def _spikes_are_those_of_its_units(self) -> SpikeTimes:
        if (self.spikes is None) == (self.path is None):
            got = "neither" if self.spikes is None else "both"
            expected = f"`spikes`, {_EXPECTED}, or the `path` of a file of them"
            raise _wrong("it is not clear which spikes there are", got, expected)
        _check(self._rows, math.prod(self.shape))
        return self

    @property
    def spiking(self) -> bool:
        """Always true."""
        return True

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: spikes are rare."""
        return True

    @property
    def host_numbers(self) -> bool:
        """The spikes of a step come from the host."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same from the train of a slice."""
        return CompiledRule("spike_times", train=self.train)

    def train(self, number: int) -> Train:
        """Return the spikes of slice `number`, counted over all ranks; in a sweep, from 0 in each point."""
        own = self._rows.shape[1] == len(_NAMES)
        return _trains(self._source).get(number if own else 0, _NONE)

    def doubts(self, dt: float, batch: int, steps: int) -> Iterator[str]:
        """Yield how many spikes are those of slices that a batch does not have, or later than the run."""
        rows, end = self._rows, Clock(dt=dt).time(steps)
        if late := int((rows[:, 0] >= end).sum()):
            yield f"{late:,} of its {len(rows):,} spikes come after the end of the run, at {end:g}"
        count = int((rows[:, 2] >= batch).sum()) if rows.shape[1] == len(_NAMES) else 0
        if count:
            which = "of the only slice, 0" if batch == 1 else f"of slices 0 to {batch - 1}"
            are = "is" if count == 1 else "are"
            yield f"{count:,} of its spikes {are} not {which}, and {are} left out"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Count the spikes of a step."""
        counts = np.zeros((len(ctx.slices), math.prod(self.shape)))
        trains, own = _in_steps(self._source, ctx.dt), self._rows.shape[1] == len(_NAMES)
        for lane, number in enumerate(ctx.slices):
            train = trains.get(number if own else 0, _NONE)
            first, end = np.searchsorted(train.times, (ctx.step - 1, ctx.step))
            np.add.at(counts[lane], train.units[first:end], 1)
        activity[...] = ctx.xp.asarray(counts.reshape(activity.shape))

    @property
    def _source(self) -> _Source:
        if self.path is None:
            if isinstance(self.spikes, InMemory):
                return self.spikes
            rows, known = self.spikes or (), vars(self).get(_TABLE)  # hashing rows takes longer than a step
            if known is None or known[0] is not rows:
                known = vars(self)[_TABLE] = rows, InMemory(_table(rows))
            return known[1]
        try:
            about = os.stat(regular(self.path))
        except OSError as error:
            raise _wrong("this file cannot be read", str(error.strerror), _IN_FILE) from error
        return _File(self.path, about.st_mtime_ns, about.st_size)

    @property
    def _rows(self) -> np.ndarray:
        return _read(self._source)


class _File(NamedTuple):
    """A file as it is at present."""

    path: str
    modified: int
    size: int


_Source = InMemory | _File
_TABLE = "_table"
"""Attribute of a layer: rows, and the same as an array."""
_NONE = Train(np.zeros(0), np.zeros(0, np.int32))


@lru_cache(maxsize=16)
def _read(source: _Source) -> np.ndarray:
    """Return rows of time, unit and perhaps slice, float64; raises PydanticCustomError."""
    found = _read_file(Path(source.path)) if isinstance(source, _File) else source.array
    if found.ndim != 2 or found.shape[1] not in (2, 3):
        raise _wrong("these are not spikes", f"{found.dtype} {list(found.shape)}", _EXPECTED)
    return found.astype(float)


def _table(rows: tuple[tuple[float, ...], ...]) -> np.ndarray:
    if len({len(row) for row in rows}) > 1:
        raise _wrong("these rows differ in length", "rows of several lengths", _EXPECTED)
    return np.array(rows, float).reshape(len(rows), -1 if rows else 2)


def _read_file(path: Path) -> np.ndarray:
    try:
        if (kind := kind_of(str(path))) == ZIP:
            return _of_arrays(path, read_npz(str(path), _IN_FILE, {}))
        if kind not in (TEXT, "", "an empty file"):
            raise _wrong(f"{path}: these are no spikes", kind, _IN_FILE)
        with open_regular(path) as opened, TextIOWrapper(opened, "utf-8-sig") as file:
            lines = [line.partition("#")[0].replace(",", " ") for line in file]
        rows = [line for line in lines if line.strip()]
        return np.loadtxt(rows, ndmin=2) if rows else np.zeros((0, 2))
    except PydanticCustomError:  # a ValueError
        raise
    except InputError as error:
        raise _wrong(str(error).partition("\n")[0], "", _IN_FILE) from error
    except (*NPZ_ERRORS, UnicodeDecodeError) as error:
        said = reason(error).partition("\n")[0]
        raise _wrong(f"{path}: these spikes cannot be read", said, _IN_FILE) from error


def _of_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the rows that arrays of an archive make; raises PydanticCustomError."""
    if not {"time", "unit"} <= arrays.keys():
        raise _wrong(f"{path}: this file has no spikes", ", ".join(arrays) or "no arrays", _IN_FILE)
    for name in arrays:
        if name not in _NAMES:
            hint = did_you_mean(name, _NAMES)
            raise _wrong(f"{path}: there is no use for one of its arrays", name, ", ".join(_NAMES), hint)
    kinds = [f"{name} {array.dtype} {list(array.shape)}" for name, array in arrays.items()]
    alike = {array.shape for array in arrays.values()}
    if len(alike) > 1 or any(one.ndim != 1 or one.dtype.kind not in "fiu" for one in arrays.values()):
        raise _wrong(f"{path}: these are no spikes", ", ".join(kinds), "numbers, one of each for a spike")
    return np.column_stack([arrays[name] for name in _NAMES if name in arrays])


def _check(rows: np.ndarray, units: int) -> None:
    """Raise PydanticCustomError for a time before 0, or a unit that there is not."""
    for name, column, most in zip(_NAMES, rows.T, (math.inf, units, math.inf), strict=False):
        good = np.isfinite(column) & (column >= 0) & (column < most)
        if name != "time":
            good &= column == np.floor(column)
        if not good.all():
            row = int(np.flatnonzero(~good)[0])
            expected = f"{name}s from 0" + (f" to {units - 1}" if name == "unit" else "")
            raise _wrong(f"spike {row + 1} has no such {name}", f"{name} {column[row]:g}", expected)


@lru_cache(maxsize=16)
def _trains(source: _Source) -> dict[int, Train]:
    """Return the spikes of each slice by time; those of all slices are those of slice 0."""
    rows = _read(source)
    numbers = rows[:, 2].astype(int) if rows.shape[1] == len(_NAMES) else np.zeros(len(rows), int)
    order = np.lexsort((rows[:, 1], rows[:, 0], numbers))
    rows, numbers = rows[order], numbers[order]
    ends = np.searchsorted(numbers, np.arange(numbers.max(initial=-1) + 2))
    return {
        number: Train(rows[first:end, 0].copy(), rows[first:end, 1].astype(np.int32))
        for number, (first, end) in enumerate(pairwise(ends))
        if end > first
    }


@lru_cache(maxsize=16)
def _in_steps(source: _Source, dt: float) -> dict[int, Train]:
    """Return the same with the number of steps before each spike, rounded, in place of its time."""
    found, clock = _trains(source).items(), Clock(dt=dt)
    return {number: Train(np.floor(clock.steps(one.times) + EARLY), one.units) for number, one in found}


def _wrong(message: str, got: str, expected: str, hint: str = "") -> PydanticCustomError:
    about = {"got": got.replace("{", "(").replace("}", ")"), "expected": expected, "hint": hint}
    return PydanticCustomError("spike_times", message.replace("{", "(").replace("}", ")"), about)
