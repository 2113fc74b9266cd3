"""The sink of a run in HDF5: a segment of each rank for each flush, and the index over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from petabatch.storage.compact import compact
from petabatch.storage.description import Description
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import drop_after, write_index
from petabatch.storage.segment import write_segment
from petabatch.variable import Stream

if TYPE_CHECKING:
    from petabatch.engine.recorder import Record


class Segments:
    """The segments of a run directory that a rank writes, those of slices `lo` to `hi - 1`."""

    def __init__(
        self, directory: RunDirectory, streams: Sequence[Stream], batch: int, rank: int, lo: int, hi: int
    ) -> None:
        self._directory, self._streams, self._batch = directory, streams, batch
        self._rank, self._lo, self._hi = rank, lo, hi

    def shared(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return them: each rank writes its own slices."""
        return records

    def put(self, records: Sequence[Record], first: int, last: int) -> Any:
        """Write a segment; return its name and summary, None if there is nothing for this rank to write."""
        return write_segment(self._directory, records, self._rank, first, last, self._lo, self._hi)

    def commit(self, parts: Sequence[Any]) -> None:
        """Take note of the segments of a flush."""
        self._directory.summaries.update(part for part in parts if part is not None)

    def tidy(self) -> None:
        """Merge some segments if there are many."""
        compact(self._directory, self._streams, self._batch, most=2)

    def index(self, described: Description, until: int | None = None) -> float:
        """Rewrite `run.h5`."""
        return write_index(self._directory, described, until)

    def drop_after(self, step: int) -> None:
        """Remove the segments and checkpoints of later steps."""
        drop_after(self._directory, step)
