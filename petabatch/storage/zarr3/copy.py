"""Copying of a store into one file in HDF5, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import METADATA
from petabatch.storage.rows import Row
from petabatch.storage.seal import read_json
from petabatch.storage.zarr3.chunks import decoded, decoded_texts
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


def copy_whole(store: Path, file: Any, check: Callable[[], None]) -> None:
    """Copy a store that has all values in its index into a file of HDF5."""
    root = read_json(store / METADATA)
    file.attrs.update({name: value for name, value in root["attributes"].items() if name != "seal"})
    tables: dict[str, Any] = root["consolidated_metadata"]["metadata"]
    arrays = {path: one for path, one in tables.items() if one["node_type"] == "array"}
    for path, table in arrays.items():
        folder, _, name = path.rpartition("/")
        if folder and name in arrays and "key" in table["attributes"]:  # what slices differ in
            file[path] = file[name]
            continue
        _copy_array(store / path, table, file, path)
        if [name] == table["dimension_names"]:
            file[path].make_scale(name)
        check()
    for path, table in arrays.items():
        folder = path.rpartition("/")[0]
        for axis, label in enumerate(table["dimension_names"]):
            file[path].dims[axis].label = label
            beside = f"{folder}/{label}".strip("/")
            scale = file[beside if beside in arrays else label]
            if not file[path].is_scale and not len(file[path].dims[axis]):
                file[path].dims[axis].attach_scale(scale)


def _copy_array(folder: Path, table: Mapping[str, Any], file: Any, path: str) -> None:
    shape, chunk = table["shape"], table["chunk_grid"]["configuration"]["chunk_shape"]
    if table["data_type"] == "string":
        texts = [one for n in range(-(-shape[0] // chunk[0])) for one in decoded_texts(folder / f"c/{n}")]
        names = [one.encode() for one in texts]
        kind = h5py.string_dtype("utf-8", max(map(len, names), default=1))
        file.create_dataset(path, data=np.array(names, kind))
    else:
        target = file.create_dataset(path, shape, table["data_type"])
        for place in product(*(range(-(-n // many)) for n, many in zip(shape, chunk, strict=True))):
            found = decoded(folder.joinpath("c", *map(str, place)), table["data_type"], chunk)
            begin = [at * many for at, many in zip(place, chunk, strict=True)]
            ends = [min(one + many, n) for one, many, n in zip(begin, chunk, shape, strict=True)]
            part = tuple(map(slice, begin, ends))
            target[part] = found[tuple(slice(one.stop - one.start) for one in part)]
    file[path].attrs.update(table["attributes"])
