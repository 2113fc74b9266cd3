"""The table `[sweep]`: values of numeric keys, whose combinations are the points of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from petabatch.spec.columns import Draw, columns_of
from petabatch.spec.model import Count, Finite, Index, Model
from petabatch.synonyms import EXPLAINED

_MOST = 10**6
"""Largest number of values of a range."""
_RANGES = tuple(name for name, instead in EXPLAINED.items() if "start" in instead)
"""What other programs call evenly spaced values."""
_KINDS = ("run", "layers", "connections", "probes")


class Range(Model):
    """Evenly spaced values from `start` to `stop`, both included."""

    start: Finite
    """First value."""
    stop: Finite
    """Last value."""
    count: Annotated[int, Field(strict=True, ge=1, le=_MOST)]
    """Number of values."""
    spacing: Literal["linear", "log"] = "linear"
    """Equal differences, or equal ratios of successive values."""

    @model_validator(mode="after")
    def _has_a_logarithm(self) -> Range:
        _check_logarithm(self.spacing, self.start, self.stop)
        return self

    @property
    def values(self) -> np.ndarray:
        """The values."""
        space = np.geomspace if self.spacing == "log" else np.linspace
        return space(self.start, self.stop, self.count)


class Interval(Model):
    """Values drawn between `low` and `high`, by the method `draw` of the sweep."""

    low: Finite
    """Lower bound."""
    high: Finite
    """Upper bound."""
    spacing: Literal["linear", "log"] = "linear"
    """Uniform in the value, or in its logarithm."""

    @model_validator(mode="after")
    def _is_in_order(self) -> Interval:
        if self.low > self.high:
            raise PydanticCustomError(
                "interval_order",
                "the lower bound is above the upper one",
                {"got": f"low = {self.low:g}, high = {self.high:g}", "expected": "low at most high"},
            )
        _check_logarithm(self.spacing, self.low, self.high)
        return self

    def at(self, drawn: np.ndarray) -> np.ndarray:
        """Return the values at places between 0 and 1."""
        if self.spacing == "log":
            return np.asarray(self.low * (self.high / self.low) ** drawn)
        return np.asarray(self.low + (self.high - self.low) * drawn)


def _check_logarithm(spacing: str, first: float, last: float) -> None:
    if spacing == "log" and not first * last > 0:
        raise PydanticCustomError(
            "log_range",
            "a range with equal ratios cannot include 0",
            {"got": f"from {first:g} to {last:g}", "expected": "two positive numbers"},
        )


def _kind(values: Any) -> str:
    if isinstance(values, Interval) or (isinstance(values, dict) and {"low", "high"} & values.keys()):
        return "interval"
    return "range" if isinstance(values, dict | Range) else "array"


def _plain(values: Any) -> Any:
    """Return the numbers of an array as a list, anything else as it is."""
    return values.astype(float).tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values


_Array = Annotated[tuple[Finite, ...], Field(min_length=1)]
_Values = Annotated[
    Annotated[_Array, Tag("array")] | Annotated[Range, Tag("range")] | Annotated[Interval, Tag("interval")],
    Field(discriminator=Discriminator(_kind)),
    BeforeValidator(_plain),
]


def _read_table(table: Any, info: ValidationInfo) -> Any:
    if isinstance(table, Mapping):
        return {path: _plain(values) for path, values in table.items()}
    return columns_of(table, (info.context or {}).get("folder"))


_Table = Annotated[dict[str, _Array], Field(min_length=1), BeforeValidator(_read_table)]


class Axis:
    """Keys whose values belong together: the first of each with the first of the others."""

    def __init__(self, columns: Mapping[str, Sequence[float] | np.ndarray]) -> None:
        self.columns, self.paths = columns, list(columns)
        self.lengths = {path: len(values) for path, values in columns.items()}

    def __len__(self) -> int:
        return next(iter(self.lengths.values()))


class Sweep(Model):
    """A run for each of several values of numeric keys, its points, as many at once as fit in memory.

    A key path under `[sweep]` takes an array of numbers, a range `{ start, stop, count, spacing }`, or an
    interval `{ low, high, spacing }` from which values are drawn, as in `layers.V1.threshold = [0.3, 0.4]`,
    `run.seed = { start = 1, stop = 8, count = 8 }` or `layers.V1.tau = { low = 10.0, high = 100.0 }`. Keys
    are those that take [values per slice](experiments.md), and `run.seed` and `run.dt`. `run.batch` is the
    number of slices of each point; the slices of a point are those of the run with its values alone.
    """

    combine: Literal["grid", "zip"] = "grid"
    """Points of several keys. `grid`: all combinations of their values, those of the last key in turn first.
    `zip`: first value with first value, second with second. The keys of intervals, which are drawn together,
    and those of the table count as one."""
    draw: Literal["random", "latin_hypercube", "sobol"] | None = None
    """How values are drawn from intervals: independently (`random`, the default), one in each of `draws`
    equal parts, or by the scrambled sequence of Sobol. More draws of `random` and `sobol` begin with the same
    points."""
    draws: Annotated[int, Field(strict=True, ge=1, le=10 * _MOST)] | None = None
    """Number of points that are drawn from intervals."""
    seed: Index | None = None
    """Seed of what is drawn from intervals, by default 1; runs have that of `run.seed`."""
    table: _Table | None = None
    """Points of a table: a CSV file or HDF5 file (`"points.h5"`, `"points.h5:group"`) with a column for each
    key path, or, in Python, arrays by key path. The run keeps the values, not the file."""
    wave: Count | None = None
    """Number of points that are held at once, for more points than fit in memory. Finished points are
    committed, and `petabatch resume` makes the others. By default all are, where they fit; else those
    that half of the memory holds."""
    values: dict[str, _Values] = Field(default_factory=dict)
    """The values by key path; in a params file, the key paths stand in the table `[sweep]` itself."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the table as it is written: key paths beside `combine`."""
        found = super().__get_pydantic_json_schema__(schema, handler)
        table = handler.resolve_ref_schema(found)
        table["properties"] |= {kind: {"type": "object"} for kind in _KINDS}
        return found

    @model_validator(mode="before")
    @classmethod
    def _by_path(cls, data: Any) -> Any:
        """Move key paths to `values`."""
        given = data.get("values", {}) if isinstance(data, dict) else None
        if not isinstance(given, dict):
            return data
        found, others = dict(given), {}
        for key, value in data.items():
            if key.partition(".")[0] not in _KINDS:
                others[key] = value
            elif not (isinstance(value, dict) and value == {}):
                _flatten(value, key, found)
        return {**others, "values": found}

    @model_validator(mode="after")
    def _has_values(self) -> Sweep:
        if not self.values and self.table is None:
            expected = "at least one key with its values, such as layers.V1.threshold = [0.3, 0.4]"
            raise PydanticCustomError("no_values", "there is nothing to sweep", {"expected": expected})
        drawn = [path for path, values in self.values.items() if isinstance(values, Interval)]
        if bool(drawn) != (self.draws is not None):
            got = f"intervals of {', '.join(drawn)}" if drawn else "no interval { low, high }"
            raise PydanticCustomError(
                "draws",
                "`draws` says how many points are drawn from intervals",
                {"got": got, "expected": "an interval { low, high } of a key and `draws`, or neither"},
            )
        for key, given in (("draw", self.draw), ("seed", self.seed)):
            if given is not None and not drawn:
                error = PydanticCustomError(
                    "not_drawn",
                    "nothing is drawn from intervals, so this says nothing",
                    {
                        "got": f"{given!r}, and no interval",
                        "expected": "an interval { low, high } of a key, and `draws`; or no such key",
                        "hint": "arrays and ranges have the values that they say; `run.seed` is that of runs",
                    },
                )
                raise ValidationError.from_exception_data(
                    type(self).__name__, [InitErrorDetails(type=error, loc=(key,), input=given)]
                )
        if twice := sorted(self.values.keys() & (self.table or {}).keys()):
            context = {"got": ", ".join(twice), "expected": "values in the table, or under [sweep]"}
            raise PydanticCustomError("swept_twice", "this key is given twice", context)
        return self

    @model_validator(mode="after")
    def _same_lengths(self) -> Sweep:
        together = [axis.lengths for axis in self.axes]
        wrong = self.combine == "zip" and len({n for axis in together for n in axis.values()}) > 1
        if wrong or any(len(set(axis.values())) > 1 for axis in together):
            what = 'keys that are combined by "zip"' if wrong else "columns of the table"
            raise PydanticCustomError(
                "zip_lengths",
                f"{what} have different numbers of values",
                {
                    "got": ", ".join(f"{path}: {n}" for axis in together for path, n in axis.items()),
                    "expected": 'as many of each, or combine = "grid"' if wrong else "as many of each",
                },
            )
        return self

    @cached_property
    def axes(self) -> list[Axis]:
        """What is combined: keys with their values; those of the table, and of intervals, together."""
        return list(self._found_axes())

    def _found_axes(self) -> Iterator[Axis]:
        if self.table is not None:
            yield Axis(self.table)
        drawn = {path: one for path, one in self.values.items() if isinstance(one, Interval)}
        for path, given in self.values.items():
            if not isinstance(given, Interval):
                yield Axis({path: given.values if isinstance(given, Range) else given})
            elif path == next(iter(drawn)):
                assert self.draws is not None
                how = Draw(self.draw or "random", 1 if self.seed is None else self.seed)
                places = how.places(self.draws, len(drawn))
                yield Axis(
                    {path: one.at(place) for (path, one), place in zip(drawn.items(), places.T, strict=True)}
                )

    @property
    def columns(self) -> dict[str, Sequence[float] | np.ndarray]:
        """The values by key path, in their order."""
        return {path: values for axis in self.axes for path, values in axis.columns.items()}

    @property
    def points(self) -> int:
        """Number of combinations."""
        return len(self.axes[0]) if self.combine == "zip" else math.prod(map(len, self.axes))

    def point(self, number: int) -> dict[str, float]:
        """Return the values of point `number`, by key path."""
        found: dict[str, float] = {}
        for axis in reversed(self.axes):
            following, index = (number, number) if self.combine == "zip" else divmod(number, len(axis))
            found |= {path: float(axis.columns[path][index]) for path in reversed(axis.paths)}
            number = following
        return dict(reversed(found.items()))

    def at(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of points, by key path."""
        found: dict[str, np.ndarray] = {}
        for axis in reversed(self.axes):
            following, index = (numbers, numbers) if self.combine == "zip" else np.divmod(numbers, len(axis))
            found |= {path: np.asarray(axis.columns[path])[index] for path in reversed(axis.paths)}
            numbers = following
        return dict(reversed(found.items()))

    def only(self, numbers: np.ndarray) -> Sweep:
        """Return the sweep of some points."""
        columns: dict[str, Any] = {path: tuple(values.tolist()) for path, values in self.at(numbers).items()}
        return Sweep.model_construct(combine="zip", values=columns)

    def without(self, prefix: str, seed: int) -> Sweep:
        """Return the same points without the values of key paths that begin with `prefix`.

        Where there are no others, it is one of `seed` alone, the same in all points.
        """
        if not any(path.startswith(prefix) for path in self.columns):
            return self
        columns = self.at(np.arange(self.points))
        kept = {path: tuple(v.tolist()) for path, v in columns.items() if not path.startswith(prefix)}
        return Sweep(combine="zip", values=kept or {"run.seed": (seed,) * self.points})


def _flatten(table: Any, path: str, found: dict[str, Any]) -> None:
    """Add the arrays and ranges in nested tables to `found`, by key path."""
    is_range = isinstance(table, dict) and any(
        name in table and not isinstance(table[name], dict)
        for name in ("start", "stop", "count", "low", "high", *_RANGES)
    )
    if isinstance(table, dict) and table and not is_range:
        for key, value in table.items():
            _flatten(value, f"{path}.{key}", found)
    elif path in found:
        context = {"got": path, "expected": "all its values in one array"}
        raise PydanticCustomError("swept_twice", "this key is given twice", context)
    else:
        found[path] = table
