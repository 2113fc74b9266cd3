"""Values over time: `{ at = [...], values = [...] }` in place of a number."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.model import Count, Finite, Model


class OverTime(Model):
    """Values over time of a number, in its place: `{ at = [...], values = [...] }`.

    Before the first time the value is the first one, after the last the last one. See
    [experiments](experiments.md).
    """

    at: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Times, ascending: numbers of displays, updates or steps, from 1."""
    values: Annotated[tuple[Finite, ...], Field(min_length=1)]
    """The value from each of these times on."""
    by: Literal["display", "update", "step", "step of display"] | None = None
    """What `at` counts. `update`: updates of the weights, for numbers of a learning rule, where it is the
    default. `display`: displays, the default of all others. `step`: steps. `step of display`: steps of each
    display, so that values are the same in every display."""
    interpolate: Literal["none", "linear"] = "none"
    """Values between two times: the one before, or linear interpolation."""

    @model_validator(mode="after")
    def _has_a_value_for_each_time(self) -> OverTime:
        if len(self.at) != len(self.values):
            raise PydanticCustomError(
                "times_and_values",
                "there is not one value for each time",
                {"got": f"{len(self.at)} times, {len(self.values)} values", "expected": "as many of both"},
            )
        if any(later <= earlier for earlier, later in pairwise(self.at)):
            raise PydanticCustomError(
                "times_ascending",
                "the times do not ascend",
                {"got": ", ".join(map(str, self.at)), "expected": "each time later than the one before"},
            )
        return self

    @property
    def constant(self) -> bool:
        """Whether all values are the same."""
        return len(set(self.values)) == 1

    def value(self, time: int) -> float:
        """Return the value at a time."""
        after = bisect_right(self.at, time)
        if after in (0, len(self.at)) or self.interpolate == "none":
            return self.values[max(0, after - 1)]
        (begin, end), (low, high) = self.at[after - 1 : after + 1], self.values[after - 1 : after + 1]
        return low + (high - low) * ((time - begin) / (end - begin))

    def next_time(self, time: int) -> int | None:
        """Return the first time after `time` at which the value may be another one, None if it stays."""
        after = bisect_right(self.at, time)
        if after == len(self.at) or self.constant:
            return None
        return self.at[after] if after == 0 or self.interpolate == "none" else time + 1
