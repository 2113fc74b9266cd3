"""The table `[sweep]`: values of numeric keys, whose combinations are the points of a sweep."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, Field, GetJsonSchemaHandler, Tag, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from petabatch.spec.model import Finite, Model

_MOST = 10**6
"""Largest number of values of a range."""
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
        if self.spacing == "log" and not self.start * self.stop > 0:
            raise PydanticCustomError(
                "log_range",
                "a range with equal ratios cannot include 0",
                {"got": f"from {self.start:g} to {self.stop:g}", "expected": "two positive numbers"},
            )
        return self

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The values."""
        space = np.geomspace if self.spacing == "log" else np.linspace
        return tuple(space(self.start, self.stop, self.count).tolist())


def _kind(values: Any) -> str:
    return "range" if isinstance(values, dict | Range) else "array"


_Array = Annotated[tuple[Finite, ...], Field(min_length=1)]
_Values = Annotated[
    Annotated[_Array, Tag("array")] | Annotated[Range, Tag("range")],
    Field(discriminator=Discriminator(_kind)),
]


class Sweep(Model):
    """A run for each of several values of numeric keys, all in one batch.

    A key path under `[sweep]` takes an array of numbers, or a range `{ start, stop, count, spacing }`, as in
    `layers.V1.threshold = [0.3, 0.4]` or `run.seed = { start = 1, stop = 8, count = 8 }`. Keys are those that
    take [values per slice](experiments.md), and `run.seed` and `run.dt`. `run.batch` is the number of slices
    of each point; the slices of a point are those of the run with its values alone.
    """

    combine: Literal["grid", "zip"] = "grid"
    """Points of several keys. `grid`: all combinations of their values, those of the last key in turn first.
    `zip`: first value with first value, second with second."""
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
            elif value != {}:
                _flatten(value, key, found)
        return {**others, "values": found}

    @model_validator(mode="after")
    def _has_values(self) -> Sweep:
        if not self.values:
            expected = "at least one key with its values, such as layers.V1.threshold = [0.3, 0.4]"
            raise PydanticCustomError("no_values", "there is nothing to sweep", {"expected": expected})
        return self

    @model_validator(mode="after")
    def _zips_equal_lengths(self) -> Sweep:
        lengths = {path: len(values) for path, values in self.columns.items()}
        if self.combine == "zip" and len(set(lengths.values())) > 1:
            raise PydanticCustomError(
                "zip_lengths",
                'keys that are combined by "zip" have different numbers of values',
                {
                    "got": ", ".join(f"{path}: {length}" for path, length in lengths.items()),
                    "expected": 'as many of each, or combine = "grid"',
                },
            )
        return self

    @property
    def columns(self) -> dict[str, tuple[float, ...]]:
        """The values by key path, in their order."""
        return {
            path: given.values if isinstance(given, Range) else given for path, given in self.values.items()
        }

    @property
    def points(self) -> int:
        """Number of combinations."""
        lengths = [len(values) for values in self.columns.values()]
        return lengths[0] if self.combine == "zip" else math.prod(lengths)

    def point(self, number: int) -> dict[str, float]:
        """Return the values of point `number`, by key path."""
        found = {}
        for path, values in reversed(self.columns.items()):
            following, index = (number, number) if self.combine == "zip" else divmod(number, len(values))
            found[path], number = values[index], following
        return dict(reversed(found.items()))

    def without(self, prefix: str, seed: int) -> Sweep:
        """Return the same points without the values of key paths that begin with `prefix`.

        Where there are no others, it is one of `seed` alone, the same in all points.
        """
        if not any(path.startswith(prefix) for path in self.values):
            return self
        points = [self.point(number) for number in range(self.points)]
        kept = [path for path in self.values if not path.startswith(prefix)]
        columns = {path: tuple(point[path] for point in points) for path in kept}
        return Sweep(combine="zip", values=columns or {"run.seed": (seed,) * len(points)})


def _flatten(table: Any, path: str, found: dict[str, Any]) -> None:
    """Add the arrays and ranges in nested tables to `found`, by key path."""
    is_range = isinstance(table, dict) and any(
        name in table and not isinstance(table[name], dict) for name in ("start", "stop", "count")
    )
    if isinstance(table, dict) and table and not is_range:
        for key, value in table.items():
            _flatten(value, f"{path}.{key}", found)
    elif path in found:
        context = {"got": path, "expected": "all its values in one array"}
        raise PydanticCustomError("swept_twice", "this key is given twice", context)
    else:
        found[path] = table
