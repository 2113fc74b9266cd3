"""Sinks: where what an engine records goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from petabatch.storage.description import Description

if TYPE_CHECKING:
    from petabatch.engine.recorder import Record


class Sink(Protocol):
    """Takes what this rank has recorded, stretch by stretch of steps."""

    def put(self, records: Sequence[Record], first: int, last: int) -> Any:
        """Take what was recorded in steps `first` to `last`, both included; return what `commit` is told."""


class RunSink(Sink, Protocol):
    """Takes what a run has recorded, and makes it durable and readable.

    What ranks have put is in the run once rank 0 has committed it; a kill loses no more than what is not.
    """

    def shared(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return what this rank puts of what ranks have recorded; collective for those that write."""

    def commit(self, parts: Sequence[Any]) -> None:
        """Make part of the run what all ranks have put, which `put` returned on each; on rank 0."""

    def tidy(self) -> None:
        """Bound the number of files between two indexes; on rank 0."""

    def index(self, described: Description, until: int | None = None) -> float:
        """Make readable what is committed, up to step `until`; return the seconds that it took; on rank 0."""

    def drop_after(self, step: int) -> None:
        """Remove what was committed of later steps, which are made again; on rank 0, after `index`."""
