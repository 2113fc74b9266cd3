"""Copying of a store into one file in HDF5, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from petabatch.storage.damaged import naming_damage
from petabatch.storage.directory import RunDirectory
from petabatch.storage.zarr3.commits import Commit, along
from petabatch.storage.zarr3.store import Array, Store
from petabatch.variable import Stream


def copy(
    directory: RunDirectory,
    commits: Sequence[Commit],
    values: Mapping[Stream, Any],
    steps: Mapping[Stream, Any],
    check: Callable[[], None],
) -> None:
    """Copy all values and steps into datasets of sufficient size.

    `check` is called regularly and raises when the target can no longer be written.
    """
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


def copy_whole(store: Store, file: Any, check: Callable[[], None]) -> None:
    """Copy a store that has all values in its index into a file of HDF5."""
    file.attrs.update(store.attrs)
    paths = sorted(store.paths, key=lambda path: ("/" in path, path))  # what others share comes first
    arrays = {path: one for path in paths if isinstance(one := store.at(path), Array)}
    for path, array in arrays.items():
        folder, _, name = path.rpartition("/")
        if folder and name in arrays and "key" in array.attrs:  # what slices differ in
            file[path] = file[name]
            continue
        _copy_array(array, file, path)
        if [name] == [dim.label for dim in array.dims]:
            file[path].make_scale(name)
        check()
    for path, array in arrays.items():
        for axis, dim in enumerate(array.dims):
            file[path].dims[axis].label = dim.label
            if not file[path].is_scale and not len(file[path].dims[axis]):
                file[path].dims[axis].attach_scale(file[dim[0].name])


def _copy_array(array: Array, file: Any, path: str) -> None:
    with naming_damage(array.file):
        if array.dtype.kind not in "iuf":
            names = [one.encode() for one in array.asstr()[:]]
            kind = h5py.string_dtype("utf-8", max(map(len, names), default=1))
            file.create_dataset(path, data=np.array(names, kind))
        else:
            target = file.create_dataset(path, array.shape, array.dtype)
            for at in range(0, array.shape[0], array.chunk[0]):
                target[at : at + array.chunk[0]] = array[at : at + array.chunk[0]]
    file[path].attrs.update(array.attrs)
