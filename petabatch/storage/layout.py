"""The layout of `run.h5`: groups, datasets, coordinates and attributes, wherever the values are stored."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Protocol

import h5py
import numpy as np

from petabatch.storage.description import Description
from petabatch.storage.gaps import Gap
from petabatch.variable import Coordinate, Stream


class Row(Protocol):
    """Some steps, one after the other, and what was recorded in them."""

    @property
    def first(self) -> int:
        """The first of them."""

    @property
    def last(self) -> int:
        """The last of them."""

    def times(self, stream: Stream) -> tuple[int, int]:
        """Return the number of times at which a stream was recorded, and a checksum of their steps."""


Place = Callable[[Any, str, Stream, int], Any]
"""`place(group, name, stream, times)` creates the dataset of a stream's values or steps."""


def lay_out(
    file: Any,
    rows: Sequence[Row],
    gaps: Sequence[Gap],
    described: Description,
    values: Place,
    steps: Place,
) -> None:
    """Create all datasets of a run file with their coordinates, and its root attributes.

    `gaps` are the steps that are lost, of which there are neither values nor times.
    `values` and `steps` create the datasets that grow with time. Every dimension has an HDF5 dimension scale:
    `batch` in the root group, the others in the group of the dataset. Streams of one group that were recorded
    at the same steps share one time coordinate. What slices differ in are coordinates on `batch`, in the root
    group and, as the same objects, in each group that has that dimension.
    """
    scale = file.create_dataset("batch", data=np.arange(described.batch))
    scale.make_scale("batch")
    scale.attrs["description"] = "slice of the batch"
    differing = {one.name: _coordinate_on(file, one, scale) for one in described.coordinates}
    for folder, members in groupby(sorted(described.streams, key=_folder), key=_folder):
        group = file.require_group(folder)
        together = list(members)
        if any(stream.batched for stream in together):
            for name, dataset in differing.items():
                group[name] = dataset
        scales: dict[str, tuple[object, Any]] = {"batch": (described.batch, scale)}
        for stream in together:
            dataset = _stream(group, rows, stream, [s.leaf for s in together], scales, values, steps)
            if stream.batched and differing:
                dataset.attrs["coordinates"] = " ".join(differing)
    for layer, names in described.files.items():
        if names and f"inputs/{layer}" in file:
            _files(file[f"inputs/{layer}"], names)
    reached = {
        "kind": "run",
        "status": described.status,
        "steps_reached": rows[-1].last if rows else 0,
        "gaps": gaps or None,
        "updated": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    _write_attributes(file, {**described.provenance, **reached})


def _stream(
    group: Any,
    rows: Sequence[Row],
    stream: Stream,
    leaves: Sequence[str],
    scales: dict[str, tuple[object, Any]],
    values: Place,
    steps: Place,
) -> Any:
    times = tuple(row.times(stream) for row in rows)
    length = sum(n for n, _ in times)
    dataset = values(group, stream.leaf, stream, length)
    dataset.attrs["units"] = stream.units
    dataset.attrs["sparse"] = int(stream.sparse)
    if stream.events:
        dataset.attrs["recorded_steps"] = sum(row.last - max(row.first, 1) + 1 for row in rows)
    if stream.description:
        dataset.attrs["description"] = stream.description
    along = "step" if stream.path.startswith("probes/") or stream.events else "time"
    dims: list[tuple[str, object]] = [(along, times)]
    dims += zip(stream.dims, stream.shape, strict=True)
    for axis, (dim, extent) in enumerate(dims):
        name = dim
        if name in leaves or scales.get(name, (extent, None))[0] != extent:
            name = f"{dim}_{stream.leaf}"
        if name not in scales:
            scales[name] = extent, _coordinate(group, name, stream, axis, length, steps)
        dataset.dims[axis].label = name
        dataset.dims[axis].attach_scale(scales[name][1])
    return dataset


def _coordinate_on(file: Any, coordinate: Coordinate, batch: Any) -> Any:
    """Create a dataset with a value for each slice."""
    dataset = file.create_dataset(coordinate.name, data=np.array(coordinate.values, coordinate.dtype))
    dataset.attrs["description"] = coordinate.description
    dataset.attrs["key"] = coordinate.key
    dataset.dims[0].label = "batch"
    dataset.dims[0].attach_scale(batch)
    return dataset


def _files(group: Any, files: Sequence[tuple[str, int]]) -> None:
    """Write the files of the items that a layer shows, once, and the first item of each."""
    scale = group.create_dataset("file", data=np.arange(len(files)))
    scale.make_scale("file")
    firsts = np.cumsum([0, *(items for _, items in files)])[: len(files)]
    paths = [os.fsencode(path) for path, _ in files]
    text = h5py.string_dtype("utf-8", max(map(len, paths), default=1))
    for name, values, dtype, description in (
        ("files", np.array(paths, text), text, "file of the items, by the number of the file"),
        ("first_item", firsts, np.int64, "number of the first item in each file"),
    ):
        dataset = group.create_dataset(name, (len(files),), dtype, values, compression="gzip", shuffle=True)
        dataset.attrs["description"] = description
        dataset.dims[0].label = "file"
        dataset.dims[0].attach_scale(scale)


def _coordinate(group: Any, name: str, stream: Stream, axis: int, length: int, steps: Place) -> Any:
    if axis == 0:
        scale = steps(group, name, stream, length)
        scale.attrs["units"] = "step"
        scale.attrs["description"] = "step at whose end the values were taken"
    else:
        scale = group.create_dataset(name, data=np.arange(stream.shape[axis - 1]))
    scale.make_scale(name)
    return scale


def _write_attributes(file: Any, attributes: Mapping[str, object]) -> None:
    """Write root attributes: strings and numbers as they are, lists and tables as JSON; None is skipped."""
    for name, value in attributes.items():
        if value is not None:
            plain = isinstance(value, str | int | float)
            file.attrs[name] = value if plain else json.dumps(value)


def _folder(stream: Stream) -> str:
    return stream.path.rpartition("/")[0]
