"""Points of a sweep in one batch that failed: their slices have stopped, others go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from petabatch.engine.failure import Failure
from petabatch.engine.recorder import Record
from petabatch.network.slices import coordinate_of_failed
from petabatch.variable import Coordinate

_NAMED = 100
"""Maximum number of failed points whose reasons are stored in `run.h5`."""


@dataclass
class FailedPoints:
    """The slices of all ranks that have stopped, on rank 0."""

    batch: int
    """Slices of each point."""
    slices: dict[int, Failure] = field(default_factory=dict)
    """Why each has stopped, by its number."""

    @classmethod
    def of(cls, batch: int, meta: Mapping[str, Any]) -> FailedPoints:
        """Return those of a checkpoint."""
        found = meta.get("failed", ())
        return cls(batch, {number: Failure(why, step) for number, why, step in found})

    @property
    def meta(self) -> dict[str, Any]:
        """What a checkpoint says of them."""
        found = [[number, one.why, one.step] for number, one in sorted(self.slices.items())]
        return {"failed": found} if found else {}

    @property
    def _points(self) -> dict[int, Failure]:
        """The first failure of each point."""
        found: dict[int, Failure] = {}
        for number, one in sorted(self.slices.items(), key=lambda item: item[1].step):
            found.setdefault(number // self.batch, one)
        return found

    @property
    def about(self) -> dict[str, Any]:
        """What `run.h5` says of them; nothing where there are none."""
        points = self._points
        why = {str(n): points[n].why for n in sorted(points)[:_NAMED]}
        return {"points": {"failed": len(points), "why": why}} if points else {}

    @property
    def told(self) -> str:
        """How many have failed; nothing where none did."""
        count = len(self._points)
        return f"{count:,} point{'s' * (count > 1)} failed" if count else ""

    def coordinates(self, slices: int) -> Sequence[Coordinate]:
        """Return the steps at which points failed, of each of `slices`; nothing where none did."""
        if not (points := self._points):
            return ()
        steps = np.full(slices // self.batch, -1)
        steps[list(points)] = [one.step for one in points.values()]
        return (coordinate_of_failed(np.repeat(steps, self.batch)),)


def forget(records: Iterable[Record], stopped: Mapping[int, Failure], lo: int) -> None:
    """Replace what slices recorded from the step on at which they had stopped by NaN; `lo` is the first."""
    for record in records:
        if record.stream.batched and np.issubdtype(record.stream.dtype, np.floating):
            for number, failure in stopped.items():
                record.values[record.steps >= failure.step, number - lo] = np.nan
