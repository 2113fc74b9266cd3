"""Merging of a run into one self-contained file, with the layout of `run.h5`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from petabatch.errors import Problem, StorageError
from petabatch.storage.atomic import available, new_hdf5
from petabatch.storage.description import describe, indexed_steps, verify_index
from petabatch.storage.directory import RunDirectory
from petabatch.storage.layout import lay_out
from petabatch.storage.rows import find_gaps, find_rows, verify_rows
from petabatch.storage.segment import create_dataset, create_plain
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
        if not (directory.path / directory.index).exists():
            hint = f"    hint:     petabatch join {directory.path}"
            raise StorageError(f"{directory.run_file}: the points of this sweep are not joined yet\n{hint}")
        verify_index(directory)
        directory.format.copy_points(directory, path)
        return path
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
        directory.format.copy(directory, rows, values, steps, check)
    return path
