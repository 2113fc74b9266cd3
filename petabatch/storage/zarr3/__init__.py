"""Runs as Zarr stores, format 3: chunks that ranks write, commits that say what they hold, and metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from petabatch.storage.atomic import new_hdf5
from petabatch.storage.description import metadata_of
from petabatch.storage.directory import RunDirectory
from petabatch.storage.format import Check, Format, RecordedPoints, Save
from petabatch.storage.layout import Place
from petabatch.storage.rows import Row
from petabatch.storage.seal import read_json
from petabatch.storage.segment import Segment, Summary
from petabatch.storage.sink import Share
from petabatch.storage.zarr3.chunks import chunk_shape
from petabatch.storage.zarr3.commits import COMMIT, check_chunks, commits_of, merged, read_commit
from petabatch.storage.zarr3.copy import copy, copy_whole
from petabatch.storage.zarr3.metadata import Array, check, new_root, places, write
from petabatch.storage.zarr3.sink import Chunks
from petabatch.storage.zarr3.store import Store, require_zarr
from petabatch.variable import Stream


class Zarr(Format):
    """The store `run.zarr`, with commits as segments."""

    per_rank, has_gaps, all_points = False, False, True

    def require(self) -> None:
        """Raise ResourceError unless the extra is installed."""
        require_zarr('output.format = "zarr" needs the package zarr, which')

    def sink(self, directory: RunDirectory, share: Share) -> Chunks:
        """Return the sink of a rank."""
        chunks = {one.path: chunk_shape(one, share.often[one.path]) for one in share.streams}
        return Chunks(directory, share, chunks)

    def places(self, directory: RunDirectory, rows: Sequence[Row], batch: int) -> tuple[Place, Place]:
        """Return what makes the metadata of arrays whose chunks are there."""
        return places(commits_of(rows))

    def place_of_points(self, recorded: RecordedPoints) -> Place:
        """Return what makes arrays with the values of points."""

        def values(group: Any, name: str, stream: Stream, length: int) -> Array:
            found = recorded.values(stream, length)
            made: Array = group.add(
                name, Array(stream.dtype, found.shape, chunk_shape(stream, length), found)
            )
            return made

        return values

    def write_index(self, directory: RunDirectory, lay_out: Callable[[Any], None], save: Save) -> None:
        """Write the metadata, that of the root last."""
        root = new_root()
        lay_out(root)
        write(directory, root, save)

    def attributes(self, directory: RunDirectory) -> dict[str, Any]:
        """Return the attributes of the root."""
        found: dict[str, Any] = read_json(directory.path / directory.index)["attributes"]
        return found

    def check_index(self, directory: RunDirectory) -> None:
        """Raise DamagedError unless the metadata of groups and arrays are as they were written."""
        check(directory, metadata_of(directory))

    def read_summary(self, path: Path) -> Summary:
        """Return a commit."""
        return read_commit(path)

    def check_values(self, directory: RunDirectory, segment: Segment) -> None:
        """Raise DamagedError unless the chunks hold what a commit says."""
        check_chunks(directory, segment)

    def size_of(self, path: Path) -> int:
        """Return the bytes of the values of a commit."""
        return read_commit(path).nbytes

    def merge_rows(
        self, directory: RunDirectory, rows: Sequence[Row], streams: Sequence[Stream]
    ) -> tuple[Segment, Summary]:
        """Write one commit with what others say; no chunk changes."""
        commit, segment = merged(commits_of(rows)), Segment(rows[0].first, rows[-1].last, suffix=COMMIT)
        commit.save(directory, segment)
        return segment, commit

    def copy(
        self,
        directory: RunDirectory,
        rows: Sequence[Row],
        values: Mapping[Stream, Any],
        steps: Mapping[Stream, Any],
        check: Check,
    ) -> None:
        """Copy all chunks that are committed."""
        copy(directory, commits_of(rows), values, steps, check)

    def copy_points(self, directory: RunDirectory, target: Path) -> None:
        """Copy the store, array by array."""
        with closing(self.open(directory.run_file)) as store, new_hdf5(target) as (file, check):
            copy_whole(store, file, check)

    def open(self, path: Path) -> Store:
        """Open a store."""
        return Store(path)

    def for_xarray(self, file: Any) -> tuple[Any, str]:
        """Return the store."""
        return file.source, "zarr"


FORMAT = Zarr()
