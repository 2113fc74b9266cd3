"""Merging of a run into one self-contained file, with the layout of `run.h5`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from petabatch.errors import Problem, StorageError
from petabatch.storage import seal
from petabatch.storage.atomic import available, new_file, new_hdf5
from petabatch.storage.damaged import naming_damage
from petabatch.storage.description import describe, indexed_steps, metadata_of
from petabatch.storage.directory import RunDirectory
from petabatch.storage.join import join
from petabatch.storage.layout import lay_out
from petabatch.storage.rows import find_gaps, find_rows, verify_rows
from petabatch.storage.segment import create_dataset, create_plain
from petabatch.storage.zarr3 import metadata
from petabatch.storage.zarr3.copy import copy, copy_whole
from petabatch.variable import Stream


def merge(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> Path:
    """Write the content of a run directory `folder` to one HDF5 file `target`; return its path.

    The file has the layout of `run.h5`, no virtual datasets, and needs no other file. Memory use does not
    depend on the length of the run. Raises RunDirectoryError when `folder` is not a run directory,
    StorageError when `target` exists or cannot be written, or when a segment is missing or unreadable.
    """
    directory = RunDirectory.open(folder)
    if Path(target).absolute() in (directory.path, directory.run_file):
        problem = Problem("", "these are the files of the run", hint=f"-o {directory.path}.h5")
        raise StorageError(problem.render(str(target)))
    path = available(target, "run.h5")
    if directory.in_waves:
        return _copied(directory, path)
    described = describe(directory)
    verify_rows(directory, described.batch, indexed_steps(directory)[0])
    rows, _ = find_rows(directory, described.batch)
    values: dict[Stream, Any] = {}
    steps: dict[Stream, Any] = {}

    def place_values(group: Any, name: str, stream: Stream, length: int) -> Any:
        values[stream] = create_dataset(group, name, stream, (length, *stream.shape))
        return values[stream]

    def place_steps(group: Any, name: str, stream: Stream, length: int) -> Any:
        steps[stream] = create_plain(group, name, "int64", (length,))
        return steps[stream]

    with new_hdf5(path) as (file, check):
        lay_out(file, rows, find_gaps(directory, rows), described, place_values, place_steps)
        if directory.in_zarr:
            copy(directory, rows, values, steps, check)
        else:
            join(directory.parts, rows, values, steps, check)
    return path


def _copied(directory: RunDirectory, path: Path) -> Path:
    """Copy the `run.h5` of a sweep or a pool, or its store, which have their values themselves."""
    if not (directory.path / directory.index).exists():
        hint = f"    hint:     petabatch join {directory.path}"
        raise StorageError(f"{directory.run_file}: the points of this sweep are not joined yet\n{hint}")
    seal.verify(directory.path, directory.index)
    if directory.in_zarr:
        metadata.check(directory, metadata_of(directory))
        with new_hdf5(path) as (target, check):
            copy_whole(directory.run_file, target, check)
        return path
    with naming_damage(directory.run_file):
        source = directory.run_file.open("rb")
    with source, new_file(path) as file:
        shutil.copyfileobj(source, file)
    return path
