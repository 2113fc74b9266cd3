"""Description of a run in JSON: everything in `run.h5` that its segments do not hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Literal

from petabatch.errors import DamagedError, StorageError
from petabatch.storage import FORMAT, seal
from petabatch.storage.damaged import naming_damage
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import DESCRIPTION
from petabatch.storage.gaps import Gap
from petabatch.variable import Coordinate, Stream

Status = Literal["running", "stopped", "done"]
Files = Mapping[str, Sequence[tuple[str, int]]]
"""Files of the items that each input layer shows, in order, with their numbers of items."""


@dataclass(frozen=True)
class Description:
    """What is recorded, by which run, and how that ended."""

    streams: tuple[Stream, ...]
    provenance: Mapping[str, Any]
    batch: int
    status: Status
    files: Files = field(default_factory=dict)
    coordinates: tuple[Coordinate, ...] = ()

    def save(
        self,
        directory: RunDirectory,
        segments: Iterable[str] = (),
        metadata: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Write it, with the names of the segments that there are, of steps or points; on rank 0 only.

        By these it is noticed, and told, which are missing, also where `run.h5` is lost with them. `metadata`
        are the checksums of the files of that of a run in Zarr.
        """
        stored = {
            "petabatch_format": FORMAT,
            "streams": [asdict(stream) for stream in self.streams],
            "provenance": self.provenance,
            "batch": self.batch,
            "status": self.status,
            "segments": list(segments),
            "metadata": dict(metadata),
            "files": self.files,
            "coordinates": [asdict(coordinate) for coordinate in self.coordinates],
        }
        directory.write(DESCRIPTION, stored)


def describe(directory: RunDirectory) -> Description:
    """Return the description of a run; raises DamagedError if it is missing or damaged."""
    with _stored(directory) as stored:
        streams = tuple(map(Stream.of, stored["streams"]))
        files = {
            name: [(str(file), int(items)) for file, items in files]
            for name, files in stored["files"].items()
        }
        coordinates = tuple(
            Coordinate(**{**one, "values": tuple(one["values"])}) for one in stored["coordinates"]
        )
        return Description(
            streams, stored["provenance"], stored["batch"], stored["status"], files, coordinates
        )


def recorded_provenance(directory: RunDirectory) -> Mapping[str, Any] | None:
    """Return the provenance of a run that is being resumed; None if it has recorded nothing yet.

    Raises DamagedError.
    """
    if not any((directory.path / name).exists() for name in (DESCRIPTION, directory.index)):
        return None
    return describe(directory).provenance


def status_of(directory: RunDirectory) -> str:
    """Return the status that `run.h5` tells; nothing if it is missing or damaged."""
    try:
        with _reading_index(directory) as attributes:
            return str(attributes["status"])
    except StorageError:
        return ""


def indexed_steps(directory: RunDirectory) -> tuple[int, list[Gap]]:
    """Return the last step of the index, and what it calls lost; 0 and nothing if it is damaged."""
    try:
        with _reading_index(directory) as attributes:
            gaps = json.loads(attributes.get("gaps", "[]"))
            return int(attributes["steps_reached"]), [(int(first), int(last)) for first, last in gaps]
    except StorageError:
        return 0, []


def segments_of(directory: RunDirectory) -> list[str]:
    """Return the names of the segments of the last index; none where `run.json` is damaged."""
    try:
        with _stored(directory) as stored:
            return list(map(str, stored["segments"]))
    except DamagedError:
        return []


def metadata_of(directory: RunDirectory) -> dict[str, list[int]]:
    """Return the checksums of the metadata of a run in Zarr; none where `run.json` is damaged.

    Raises StorageError where it names files elsewhere, which may be read and removed.
    """
    try:
        with _stored(directory) as stored:
            found = dict(stored["metadata"])
    except DamagedError:
        return {}
    for path in map(PurePosixPath, found):
        if path.is_absolute() or ".." in path.parts:
            raise StorageError(
                f"{directory.path / DESCRIPTION}: refused, since it names a file elsewhere\n"
                f"    found:    {path}\n    expected: files below {directory.run_file}"
            )
    return found


@contextmanager
def _stored(directory: RunDirectory) -> Iterator[dict[str, Any]]:
    """Read `run.json`; raises DamagedError if it, or what the block reads of it, is damaged or missing."""
    path = directory.path / DESCRIPTION
    seal.verify(directory.path, DESCRIPTION)
    with naming_damage(path):
        yield seal.read_json(path)


@contextmanager
def _reading_index(directory: RunDirectory) -> Iterator[dict[str, Any]]:
    """Give the root attributes of the index; raises DamagedError if it is damaged or missing."""
    seal.verify(directory.path, directory.index)
    with naming_damage(directory.path / directory.index):
        yield directory.format.attributes(directory)


def verify_index(directory: RunDirectory, contents: bool = True) -> None:
    """Raise DamagedError unless the index is as it was written; without `contents` only its seal is read."""
    seal.verify(directory.path, directory.index, contents)
    directory.format.check_index(directory)
