"""Merging of a run into one self-contained file, with the layout of `run.h5`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.errors import FormatError, StorageError
from petabatch.storage import FORMAT, READABLE, manifest
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.containment import is_segment, refuse_references
from petabatch.storage.directory import RunDirectory
from petabatch.storage.join import join
from petabatch.storage.layout import lay_out
from petabatch.storage.rows import expected_segments, find_rows, verify_segments
from petabatch.storage.segment import create_dataset
from petabatch.variable import Stream


def merge(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Write the content of a run directory `folder` to one HDF5 file `target`; return its path.

    The file has the layout of `run.h5`, no virtual datasets, and needs no other file. Memory use does not
    depend on the length of the run. Raises RunDirectoryError when `folder` is not a run directory,
    StorageError when `target` exists or cannot be written, or when a segment is missing or unreadable.
    """
    directory = RunDirectory.open(folder)
    path = Path(target).absolute()
    if os.path.lexists(path):
        raise StorageError(f"{path}: already exists\n    hint:     choose another name or remove it first")
    streams, attributes = _declared(directory.run_file)
    batch, reached = int(attributes.pop("batch")), int(attributes["steps_reached"])
    verify_segments(directory, expected_segments(directory))
    rows = [row for row in find_rows(directory, batch)[0] if row.last <= reached]
    if (rows[-1].last if rows else 0) != reached:
        raise StorageError(f"{directory.parts}: the segments up to step {reached} are missing")
    values: dict[Stream, Any] = {}
    steps: dict[Stream, Any] = {}

    def place_values(group: Any, name: str, stream: Stream, length: int) -> Any:
        values[stream] = create_dataset(group, name, stream, (length, *stream.shape))
        return values[stream]

    def place_steps(group: Any, name: str, stream: Stream, length: int) -> Any:
        steps[stream] = group.create_dataset(name, shape=(length,), dtype=np.int64)
        return steps[stream]

    with new_hdf5(path) as (file, check):
        lay_out(file, rows, streams, batch, place_values, place_steps)
        for name, value in attributes.items():
            file.attrs[name] = value
        join(directory.parts, rows, values, steps, check)
    return path


def _declared(run_file: Path) -> tuple[list[Stream], dict[str, Any]]:
    """Return the streams of a run file, and its root attributes, with the size of the batch as `batch`."""
    streams: list[Stream] = []

    def visit(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and "sparse" in item.attrs:
            dims = tuple(dim.label for dim in item.dims)[1:]
            streams.append(
                Stream(
                    path,
                    item.shape[1:],
                    dims,
                    item.dtype.name,
                    dims[:1] == ("batch",),
                    item.attrs.get("description", ""),
                    item.attrs["units"],
                    bool(item.attrs["sparse"]),
                )
            )

    manifest.verify(run_file.parent, run_file.name)
    try:
        with h5py.File(run_file, "r") as file:
            if file.attrs.get("kind") != "run" or file.attrs.get("petabatch_format") not in READABLE:
                raise FormatError(f"{run_file}: not a run file of format {FORMAT}")
            refuse_references(file, is_segment)
            file.visititems(visit)
            return streams, {**file.attrs, "batch": len(file["batch"])}
    except OSError as error:
        raise StorageError(f"{run_file}: cannot be read: {error}") from error
