"""Copying of a store into one file in HDF5, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from petabatch.storage.directory import RunDirectory
from petabatch.storage.rows import Row
from petabatch.storage.zarr3.commits import Commit, along
from petabatch.variable import Stream


def copy(
    directory: RunDirectory,
    rows: Sequence[Row],
    values: Mapping[Stream, Any],
    steps: Mapping[Stream, Any],
    check: Callable[[], None],
) -> None:
    """Copy all values and steps into datasets of sufficient size.

    `check` is called regularly and raises when the target can no longer be written.
    """
    commits = [one for row in rows for one in row.summaries if isinstance(one, Commit)]
    for stream, target in values.items():
        if not len(target):
            continue
        array = commits[-1].arrays[stream.path].chunks(directory, stream.path)
        for column in range(array.columns):
            slices, at = [slice(*array.slices(column))] * bool(array.shape), 0
            for found in array.get(0, len(target), column):
                target[(slice(at, at + len(found)), *slices)] = found
                at += len(found)
                check()
    for stream, target in steps.items():
        if not len(target):
            continue
        if stream.events:
            path = along(stream)
            parts = list(commits[-1].arrays[path].chunks(directory, path).get(0, len(target), 0))
        else:
            parts = [one.steps_of(stream) for one in commits]
        target[...] = np.concatenate(parts)
