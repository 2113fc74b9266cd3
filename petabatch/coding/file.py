"""The HDF5 file of codes: written image by image, complete or not there at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np

from petabatch.regular_files import regular
from petabatch.storage.atomic import new_hdf5
from petabatch.version import __version__

if TYPE_CHECKING:
    from petabatch.coding.codes import Codes


def read(
    path: Path,
) -> tuple[h5py.Dataset, np.ndarray, np.ndarray, np.ndarray, tuple[str, ...], np.ndarray | None]:
    """Return the codes of a file, read when they are indexed; gaps, steps, active units, names and sizes."""
    file = h5py.File(regular(path), "r")
    names = tuple(file["name"].asstr(errors="surrogateescape")[()])
    sizes = file["size"][()] if "size" in file else None
    return file["activity"], file["gap"][()], file["steps"][()], file["active"][()], names, sizes


def write(
    path: Path,
    parts: Iterable[Codes],
    names: Iterable[str],
    shape: tuple[int, int, int, int],
    one_size: bool,
    dictionary: np.ndarray,
    attributes: Mapping[str, object],
) -> None:
    """Write the codes of all images, `shape` in all; see docs/encoding.md for the layout.

    They say how large they are themselves, unless all have one size.
    Raises StorageError when the file cannot be written.
    """
    with new_hdf5(path) as (file, check):
        code = file.create_dataset(
            "activity", shape, "float32", chunks=(1, *shape[1:]), compression="gzip", compression_opts=1
        )
        gap = file.create_dataset("gap", shape[:1], "float64")
        steps, active = (file.create_dataset(name, shape[:1], "int64") for name in ("steps", "active"))
        size = None if one_size else file.create_dataset("size", (shape[0], 2), "int64")
        file.create_dataset("dictionary", data=dictionary)
        text = h5py.string_dtype("utf-8")
        file.create_dataset(
            "name", data=np.array([os.fsencode(name) for name in names], dtype=object), dtype=text
        )
        _axes(file, {"image": shape[0], "y": shape[1], "x": shape[2], "feature": shape[3]})
        if not one_size:
            _axes(file, {"axis": 2})
        _axes(file, dict(zip(("py", "px", "channel"), dictionary.shape[1:], strict=True)))
        for dataset, dims in {
            "activity": ("image", "y", "x", "feature"),
            "gap": ("image",),
            "steps": ("image",),
            "active": ("image",),
            "name": ("image",),
            "dictionary": ("feature", "py", "px", "channel"),
            **({} if one_size else {"size": ("image", "axis")}),
        }.items():
            for axis, dim in enumerate(dims):
                file[dataset].dims[axis].label = dim
                file[dataset].dims[axis].attach_scale(file[dim])
        for name, value in {"kind": "codes", "petabatch_version": __version__, **attributes}.items():
            if isinstance(value, str):  # a path may be no UTF-8
                file.attrs.create(name, os.fsencode(value), dtype=text)
            else:
                file.attrs[name] = value
        first = 0
        for part in parts:
            last = first + len(part.activity)
            code[first:last], gap[first:last] = part.activity, part.gap
            steps[first:last], active[first:last] = part.steps, part.active
            if size is not None:
                size[first:last] = part.sizes
            first = last
            check()


def _axes(file: h5py.File, lengths: Mapping[str, int]) -> None:
    for name, length in lengths.items():
        file.create_dataset(name, data=np.arange(length)).make_scale(name)
