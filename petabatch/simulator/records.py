"""Records of a simulator so far, as its network's [output] and probes ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from petabatch.engine.recorder import Record
from petabatch.errors import unknown


class Records:
    """Records by path, joined when they are asked for."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Record]] = {}
        self.began: int | None = None
        """The step before the first that was recorded."""

    def add(self, records: Sequence[Record]) -> None:
        """Take over further records; of a step that was recorded before, these."""
        for record in records:
            parts = self._parts.setdefault(record.stream.path, [])
            while parts and parts[-1].steps[-1] >= record.steps[0]:
                parts += _up_to(parts.pop(), int(record.steps[0]) - 1)
            parts.append(record)

    def forget_after(self, step: int) -> None:
        """Leave out what was recorded after `step`."""
        if self.began is not None:
            self.began = min(self.began, step)
        for path, parts in self._parts.items():
            self._parts[path] = [kept for one in parts for kept in _up_to(one, step)]

    def joined(self) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield path, steps and values of each stream."""
        for path, parts in self._parts.items():
            if len(parts) > 1:
                values = np.concatenate([one.values for one in parts])
                parts[:] = [Record(parts[0].stream, np.concatenate([one.steps for one in parts]), values)]
            for one in parts:
                yield path, one.steps, one.values


class Recorded(dict[str, np.ndarray]):
    """Arrays by path; a path that is not there is an UnknownName, with the paths that are."""

    def __missing__(self, path: object) -> np.ndarray:
        raise unknown("record", path, self)


def _up_to(record: Record, step: int) -> list[Record]:
    """Return what of a record is of steps up to `step`, if anything is."""
    rows = int(np.searchsorted(record.steps, step, side="right"))
    return [Record(record.stream, record.steps[:rows], record.values[:rows])] if rows else []
