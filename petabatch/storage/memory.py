"""The sink in memory: what was recorded so far, joined when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from petabatch.engine.recorder import Record


class Memory:
    """Records by path."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Record]] = {}
        self.began: int | None = None
        """The step before the first that was recorded."""

    def put(self, records: Sequence[Record], first: int, last: int) -> None:
        """Take what was recorded in steps `first` to `last`; of a step that was recorded before, this."""
        if self.began is None and first <= last:
            self.began = max(first - 1, 0)  # step 0 is recorded with those after it
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

    def joined(self) -> Iterator[Record]:
        """Yield what each stream has recorded."""
        for parts in self._parts.values():
            if len(parts) > 1:
                values = np.concatenate([one.values for one in parts])
                parts[:] = [Record(parts[0].stream, np.concatenate([one.steps for one in parts]), values)]
            yield from parts


def _up_to(record: Record, step: int) -> list[Record]:
    """Return what of a record is of steps up to `step`, if anything is."""
    rows = int(np.searchsorted(record.steps, step, side="right"))
    return [Record(record.stream, record.steps[:rows], record.values[:rows])] if rows else []
