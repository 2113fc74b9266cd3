"""The format of what a run records: all in which HDF5, Zarr and further ones differ.

A further one is a module with an instance of a subclass, `FORMAT`, an entry of `files.OUTPUTS`, and a value
of the key `output.format`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from petabatch.storage.files import Output

if TYPE_CHECKING:
    from petabatch.storage.directory import RunDirectory
    from petabatch.storage.layout import Place
    from petabatch.storage.rows import Row
    from petabatch.storage.segment import Segment, Summary
    from petabatch.storage.sink import RunSink, Share
    from petabatch.variable import Stream

Check = Callable[[], None]
"""Called regularly by what writes a long file; raises when it can no longer be written."""
Save = Callable[[Mapping[str, Sequence[int]]], None]
"""Writes the description of a run, with the checksums of what the index consists of beside its own file."""


class RecordedPoints(Protocol):
    """What the points of a sweep have recorded, in the order of their slices in the run file."""

    def values(self, stream: Stream, length: int) -> np.ndarray:
        """Return the values of a stream at its `length` times."""

    def fits(self, stream: Stream, length: int) -> bool:
        """Return whether these need little memory."""

    def copy_blocks(self, path: str, target: Any) -> None:
        """Copy them to a dataset in blocks."""

    def copy_chunks(self, path: str, target: Any) -> None:
        """Copy them to a compressed dataset, as they are where its chunks are theirs."""


class Format(ABC):
    """How runs keep what they record."""

    per_rank = True
    """Whether each rank writes segments of its own; otherwise one has all slices."""
    has_gaps = True
    """Whether steps can be taken out of a run."""
    all_points = False
    """Whether a sweep has a place for all points from the beginning, or for those that are finished."""

    def require(self) -> None:
        """Raise ResourceError unless the packages that it needs are installed."""

    @abstractmethod
    def sink(self, directory: RunDirectory, share: Share) -> RunSink:
        """Return the sink of a rank."""

    @abstractmethod
    def places(self, directory: RunDirectory, rows: Sequence[Row], batch: int) -> tuple[Place, Place]:
        """Return what makes the arrays of an index over rows of segments: of values, and of steps."""

    @abstractmethod
    def place_of_points(self, recorded: RecordedPoints) -> Place:
        """Return what makes the arrays of an index with the values of points."""

    @abstractmethod
    def write_index(self, directory: RunDirectory, lay_out: Callable[[Any], None], save: Save) -> None:
        """Replace the index by one with what `lay_out` puts into it, and `save` the description."""

    @abstractmethod
    def attributes(self, directory: RunDirectory) -> dict[str, Any]:
        """Return the root attributes of the index, which is verified; raises DamagedError."""

    def check_index(self, directory: RunDirectory) -> None:
        """Raise DamagedError unless all that belongs to the index, beside its file, is as it was written."""

    @abstractmethod
    def read_summary(self, path: Path) -> Summary:
        """Return the summary of a segment; raises DamagedError unless it is that of its name."""

    def check_values(self, directory: RunDirectory, segment: Segment) -> None:
        """Raise DamagedError unless what a segment has elsewhere is as it was written."""

    def size_of(self, path: Path) -> int:
        """Return the bytes that are read to verify a segment."""
        return path.stat().st_size

    @abstractmethod
    def merge_rows(
        self, directory: RunDirectory, rows: Sequence[Row], streams: Sequence[Stream]
    ) -> tuple[Segment, Summary]:
        """Write one segment with what those of some rows hold, which are left."""

    @abstractmethod
    def copy(
        self,
        directory: RunDirectory,
        rows: Sequence[Row],
        values: Mapping[Stream, Any],
        steps: Mapping[Stream, Any],
        check: Check,
    ) -> None:
        """Copy all values and steps into datasets in HDF5, of sufficient size."""

    @abstractmethod
    def copy_points(self, directory: RunDirectory, target: Path) -> None:
        """Copy the index of a sweep, which has all values, to a file in HDF5."""

    @abstractmethod
    def open(self, path: Path) -> Any:
        """Open what people open, as h5py opens `run.h5`; raises ResourceError without a package for it."""

    def refuse(self, file: Any) -> None:
        """Raise StorageError if what is open refers to files that are no part of the run."""

    @abstractmethod
    def for_xarray(self, file: Any) -> tuple[Any, str]:
        """Return what xarray opens in place of an open file, and with what engine."""


def format_of(output: Output) -> Format:
    """Return the format of a kind of output; its module is imported where it is used."""
    found: Format = import_module(output.module).FORMAT
    return found
