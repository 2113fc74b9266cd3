"""The sink of a run: where what an engine records goes. One in memory is `storage.memory`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from petabatch.storage.compact import compact
from petabatch.storage.description import Description
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import drop_after, write_index
from petabatch.storage.segment import AnyRecord, Record
from petabatch.variable import Stream


@dataclass(frozen=True)
class Share:
    """What a rank writes of a run: slices `lo` to `hi - 1` of its streams."""

    streams: Sequence[Stream]
    often: Mapping[str, int]
    """How often each is recorded in ten displays, by path."""
    batch: int
    lo: int
    hi: int
    comm: Any
    """The ranks that write, a `Comm`."""


class RunSink(ABC):
    """Takes what a run has recorded, and makes it durable and readable.

    What ranks have put is in the run once rank 0 has committed it; a kill loses no more than what is not.
    """

    def __init__(self, directory: RunDirectory, share: Share) -> None:
        self._directory, self._share = directory, share

    def shared(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """Return what this rank puts of what ranks have recorded; collective for those that write."""
        return records

    @abstractmethod
    def put(self, records: Sequence[Record], first: int, last: int) -> Any:
        """Take what was recorded in steps `first` to `last`, both included; return what `commit` is told."""

    @abstractmethod
    def commit(self, parts: Sequence[Any]) -> None:
        """Make part of the run what all ranks have put, which `put` returned on each; on rank 0."""

    def tidy(self) -> None:
        """Merge some segments if there are many, between two indexes; on rank 0."""
        compact(self._directory, self._share.streams, self._share.batch, most=2)

    def index(self, described: Description, until: int | None = None) -> float:
        """Make readable what is committed, up to step `until`; return the seconds that it took; on rank 0."""
        return write_index(self._directory, described, until)

    def drop_after(self, step: int) -> None:
        """Remove what was committed of later steps, which are made again; on rank 0, after `index`."""
        drop_after(self._directory, step)
