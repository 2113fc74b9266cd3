"""Description of a run in JSON: everything in `run.h5` that its segments do not hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import h5py
import numpy as np

from petabatch.errors import DamagedError
from petabatch.storage import FORMAT, JSON_ATTRIBUTES, manifest
from petabatch.storage.containment import is_segment, refuse_references
from petabatch.storage.damaged import naming_damage, opened
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import DESCRIPTION, MANIFEST, RUN_FILE
from petabatch.storage.gaps import Gap
from petabatch.storage.seal import sealed_json
from petabatch.variable import Coordinate, Stream

Status = Literal["running", "stopped", "done"]
Files = Mapping[str, Sequence[tuple[str, int]]]
"""Files of the items that each input layer shows, in order, with their numbers of items."""
_SPENT = ("seconds", "timed_steps", "times", "rank_times")
"""What changes with every flush; it is updated in `run.json` only together with something else."""
_DERIVED = ("petabatch_format", "kind", "status", "steps_reached", "updated", "gaps")
"""Root attributes of `run.h5` that are not provenance."""


@dataclass(frozen=True)
class Description:
    """What is recorded, by which run, and how that ended."""

    streams: tuple[Stream, ...]
    provenance: Mapping[str, Any]
    batch: int
    status: Status
    files: Files = field(default_factory=dict)
    coordinates: tuple[Coordinate, ...] = ()

    def save(self, directory: RunDirectory) -> None:
        """Write it, unless this process has just done so; called on rank 0 only."""
        lasting = {name: value for name, value in self.provenance.items() if name not in _SPENT}
        if directory.saved.get(DESCRIPTION) == replace(self, provenance=lasting):
            return
        stored = {
            "petabatch_format": FORMAT,
            "streams": [asdict(stream) for stream in self.streams],
            "provenance": self.provenance,
            "batch": self.batch,
            "status": self.status,
            "files": self.files,
            "coordinates": [asdict(coordinate) for coordinate in self.coordinates],
        }
        manifest.write(directory.path / DESCRIPTION, json.dumps(sealed_json(stored), indent=1))
        directory.saved[DESCRIPTION] = replace(self, provenance=lasting)


def describe(directory: RunDirectory) -> Description:
    """Return the description of a run: of `run.json`, with what `run.h5` says of the time that was spent.

    Runs of format 1 have only `run.h5`. Raises DamagedError if what is needed is missing or damaged.
    """
    described = _read(directory)
    try:
        with _index(directory) as file:
            streams: list[Stream] = []
            file.visititems(lambda path, item: streams.extend(_stream(path, item)))
            about = {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in file.attrs.items()
                if name not in _DERIVED
            }
            indexed = Description(tuple(streams), about, len(file["batch"]), file.attrs["status"])
            if described is None and file.attrs["petabatch_format"] > 1:
                raise DamagedError(f"{directory.path / DESCRIPTION}: this file is missing")
    except DamagedError:
        if described is None:
            raise
        return described
    if described is None:
        return indexed
    return replace(described, provenance={**described.provenance, **about})


def recorded_provenance(directory: RunDirectory) -> Mapping[str, Any] | None:
    """Return the provenance of a run that is being resumed; None if it has recorded nothing yet.

    Raises DamagedError; returns None for a run of format 1 with a damaged index, since that is rebuilt.
    """
    if _read(directory) is None and not directory.run_file.exists():
        return None
    try:
        about = describe(directory).provenance
        return {
            name: json.loads(value) if name in JSON_ATTRIBUTES and isinstance(value, str) else value
            for name, value in about.items()
        }
    except (DamagedError, ValueError):
        if (directory.path / MANIFEST).exists():
            raise
        return None


def indexed_steps(directory: RunDirectory) -> tuple[int, list[Gap]]:
    """Return the last step in `run.h5`, and what it calls lost; 0 and nothing if it is missing or damaged."""
    try:
        with _index(directory) as file:
            gaps = json.loads(file.attrs.get("gaps", "[]"))
            return int(file.attrs["steps_reached"]), [(int(first), int(last)) for first, last in gaps]
    except DamagedError:
        return 0, []


def _read(directory: RunDirectory) -> Description | None:
    """Return what `run.json` says; None if there is none: before the first flush, and in format 1."""
    path = directory.path / DESCRIPTION
    if not manifest.verify(directory.path, DESCRIPTION) and not path.exists():
        return None
    with naming_damage(path):
        stored = json.loads(path.read_bytes())
        streams = tuple(map(Stream.of, stored["streams"]))
        files = {
            name: [(str(file), int(items)) for file, items in files]
            for name, files in stored.get("files", {}).items()
        }
        coordinates = tuple(
            Coordinate(**{**one, "values": tuple(one["values"])}) for one in stored.get("coordinates", ())
        )
        return Description(
            streams, stored["provenance"], stored["batch"], stored["status"], files, coordinates
        )


@contextmanager
def _index(directory: RunDirectory) -> Iterator[Any]:
    """Open `run.h5`; raises DamagedError if it is damaged or missing."""
    path = directory.run_file
    manifest.verify(directory.path, RUN_FILE)
    with opened(path, "run") as file:
        refuse_references(file, is_segment)
        yield file


def _stream(path: str, item: Any) -> Iterator[Stream]:
    """Yield the stream of a dataset of `run.h5`, if it belongs to one."""
    if isinstance(item, h5py.Dataset) and "sparse" in item.attrs:
        dims = tuple(dim.label for dim in item.dims)[1:]
        yield Stream(
            path,
            item.shape[1:],
            dims,
            item.dtype.name,
            dims[:1] == ("batch",),
            item.attrs.get("description", ""),
            item.attrs["units"],
            bool(item.attrs["sparse"]),
            "recorded_steps" in item.attrs,
        )
