"""The metadata of a store: groups, arrays and attributes as `run.h5` has them, and the chunks of coordinates.

`zarr.json` of the root has those of all arrays, so that a reader sees one state of the run; it is sealed, and
replaced last. The other files repeat it, for readers that open a single array.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import DamagedError
from petabatch.storage import FORMAT, seal
from petabatch.storage.atomic import new_file
from petabatch.storage.description import metadata_of
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import OUTPUTS
from petabatch.storage.format import Save
from petabatch.storage.layout import Place
from petabatch.storage.zarr3.chunks import CODECS, TEXT_CODECS, encode, encode_texts
from petabatch.storage.zarr3.commits import Array as Growing
from petabatch.storage.zarr3.commits import Commit, along
from petabatch.variable import Stream

_METADATA = OUTPUTS["zarr"].metadata
_TIMES = 1 << 16
"""Times of a chunk of a coordinate."""


def places(commits: Sequence[Commit]) -> tuple[Place, Place]:
    """Return what makes the arrays of values, whose chunks commits tell of, and those of steps."""
    arrays = commits[-1].arrays if commits else {}

    def growing(path: str, dtype: str, shape: tuple[int, ...]) -> Array:
        like = arrays.get(path, Growing(dtype, shape[1:], (1, *(max(1, one) for one in shape[1:]))))
        return Array(dtype, shape, like.chunk)

    def values(group: Group, name: str, stream: Stream, length: int) -> Array:
        return group.add(name, growing(stream.path, stream.dtype, (length, *stream.shape)))

    def steps(group: Group, name: str, stream: Stream, length: int) -> Array:
        if stream.events:
            return group.add(name, growing(along(stream), "int64", (length,)))
        found = np.concatenate([np.zeros(0, np.int64), *(one.steps_of(stream) for one in commits)])
        return group.add(name, Array("int64", found.shape, (_TIMES,), found))

    return values, steps


def new_root() -> Group:
    """Return the root of a store, to be laid out."""
    root = Group()
    root.attrs["petabatch_format"] = FORMAT
    return root


def write(directory: RunDirectory, root: Group, save: Save) -> None:
    """Write those files of a store that have changed, the root last, and remove those that it had before.

    `save` puts their checksums into `run.json`, before anything is written.
    """
    files, before = dict(root.files("", directory.run_id)), metadata_of(directory)
    save(checksums(directory, files))
    for name, data in files.items():
        path = directory.run_file / name
        if _crc(path) != zlib.crc32(data):
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path) as file:
                file.write(data)
    for name in before.keys() - files.keys():
        (directory.run_file / name).unlink(missing_ok=True)


def checksums(directory: RunDirectory, files: Mapping[str, bytes]) -> dict[str, list[int]]:
    """Return the CRC-32 of each file that is to be written, and that of the one which it replaces.

    Whenever writing is interrupted, each file has one of them.
    """
    found = {}
    for name, data in files.items():
        old, new = _crc(directory.run_file / name), zlib.crc32(data)
        found[name] = [new] if old in (None, new) else [new, old]
    return found


def check(directory: RunDirectory, known: Mapping[str, Sequence[int]]) -> None:
    """Raise DamagedError unless the files of the metadata are as they were written."""
    for name, allowed in known.items():
        path, found = directory.run_file / name, _crc(directory.run_file / name)
        if found is None:
            raise DamagedError(f"{path}: this file is missing")
        if found not in allowed:
            raise DamagedError(f"{path}: this file is damaged: its bytes have changed")


def _crc(path: Path) -> int | None:
    try:
        return zlib.crc32(path.read_bytes())
    except OSError:
        return None


class _Dimension:
    """A dimension of an array, as h5py has them."""

    def __init__(self) -> None:
        self.label = ""

    def attach_scale(self, scale: Array) -> None:
        """Nothing is to be done: a coordinate is found by its name."""


class Array:
    """An array, with its values if they are written with the metadata."""

    def __init__(
        self, dtype: str, shape: tuple[int, ...], chunk: tuple[int, ...], data: np.ndarray | None = None
    ) -> None:
        self.dtype, self.shape, self.chunk, self._data = dtype, shape, chunk, data
        self.attrs: dict[str, Any] = {}
        self.dims = [_Dimension() for _ in shape]

    def make_scale(self, name: str) -> None:
        """Make it a coordinate."""
        self.dims[0].label = name

    @property
    def table(self) -> dict[str, Any]:
        """Its metadata."""
        text, floating = self.dtype == "string", self.dtype.startswith("float")
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "" if text else "NaN" if floating else 0,
            "codecs": TEXT_CODECS if text else CODECS,
            "attributes": {name: _plain(value) for name, value in self.attrs.items()},
            "dimension_names": [one.label for one in self.dims],
        }

    def chunks(self) -> Iterator[tuple[str, bytes]]:
        """Yield the chunks that are written with the metadata, by their keys."""
        if self._data is None:
            return
        for place in product(*(range(-(-n // many)) for n, many in zip(self.shape, self.chunk, strict=True))):
            part = self._data[
                tuple(slice(at * many, (at + 1) * many) for at, many in zip(place, self.chunk, strict=True))
            ]
            key = "/".join(["c", *map(str, place)])
            if self.dtype == "string":
                yield key, encode_texts(part.tolist())
                continue
            whole = np.zeros(self.chunk, self.dtype)
            whole[tuple(map(slice, part.shape))] = part
            yield key, encode(whole)


class Group:
    """A group, made as those of h5py are."""

    def __init__(self) -> None:
        self.attrs: dict[str, Any] = {}
        self._members: dict[str, Group | Array] = {}

    def require_group(self, path: str) -> Group:
        """Return a group, which is made if there is none."""
        group = self
        for name in filter(None, path.split("/")):
            found = group._members.setdefault(name, Group())
            assert isinstance(found, Group)
            group = found
        return group

    def add(self, name: str, array: Array) -> Array:
        """Put an array into it."""
        self._members[name] = array
        return array

    def create_dataset(
        self,
        name: str,
        shape: tuple[int, ...] = (),
        dtype: Any = None,
        data: Any = None,
        **options: object,
    ) -> Array:
        """Make an array of values; `options`, of compression, are those of HDF5 alone."""
        values = np.asarray(data)
        if values.dtype.kind == "S":
            values = np.array([_text(one) for one in values.tolist()], object)
        kind = "string" if values.dtype == object else str(values.dtype)
        return self.add(name, Array(kind, values.shape, (max(1, *values.shape),), values))

    def __setitem__(self, name: str, array: Array) -> None:
        self._members[name] = array

    def __getitem__(self, path: str) -> Group | Array:
        name, _, rest = path.partition("/")
        found = self._members[name]
        return found[rest] if rest and isinstance(found, Group) else found

    def __contains__(self, path: str) -> bool:
        try:
            self[path]
        except KeyError:
            return False
        return True

    def tables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the metadata of what is in it, by path."""
        for name, one in self._members.items():
            yield name, one.table if isinstance(one, Array) else _group_table(one.attrs)
            if isinstance(one, Group):
                yield from ((f"{name}/{path}", table) for path, table in one.tables())

    def files(self, below: str, run_id: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield the files of all that is in it and its own, which comes last; that of the root is sealed."""
        for name, one in self._members.items():
            if isinstance(one, Group):
                yield from one.files(f"{below}{name}/")
                continue
            yield from ((f"{below}{name}/{key}", data) for key, data in one.chunks())
            yield f"{below}{name}/{_METADATA}", json.dumps(one.table).encode()
        consolidated = {"kind": "inline", "must_understand": False, "metadata": dict(self.tables())}
        table = _group_table(self.attrs) | {"consolidated_metadata": consolidated}
        text = json.dumps(table) if below else seal.sealed_attributes(table, run_id)
        yield f"{below}{_METADATA}", text.encode()


def _group_table(attrs: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {name: _plain(value) for name, value in attrs.items()}
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _text(path: bytes) -> str:
    """Return the name of a file; what is not UTF-8 in it is written as escape sequences."""
    return os.fsdecode(path).encode("utf-8", "backslashreplace").decode()
