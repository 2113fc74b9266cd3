"""Chunks of the arrays of a Zarr store: their shapes, and the files that they are.

A chunk is a file that appears complete under its name. The last one along time is replaced by a longer one
until it is full; what it held before stays as it was.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import DamagedError
from petabatch.regular_files import open_regular, reason
from petabatch.storage.atomic import new_file
from petabatch.variable import Stream

_TARGET = 1 << 20
"""Bytes of most chunks: enough that there are not too many files, little to write again at each flush."""
_LEVEL = 1
_CHECKSUM = 4
"""Bytes of a CRC-32C, with which each file ends."""
_COMPRESSION: list[dict[str, Any]] = [
    {"name": "zstd", "configuration": {"level": _LEVEL, "checksum": False}},
    {"name": "crc32c"},
]
CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, *_COMPRESSION]
TEXT_CODECS = [{"name": "vlen-utf8"}, *_COMPRESSION]
"""Codecs of numbers and of texts, as the metadata of arrays name them."""


def chunk_shape(stream: Stream, often: int) -> tuple[int, ...]:
    """Return the shape of the chunks of a stream that is recorded `often` in ten displays.

    It depends on nothing else, so that a store has the same chunks whatever ranks write it: as long as what
    they record between two flushes, of all slices if that is little, of single ones if it is much.
    """
    if stream.events or not stream.batched:
        return (max(1, _TARGET // max(1, stream.nbytes)), *map(_at_least_one, stream.shape))
    batch, *rest = stream.shape
    each = max(1, stream.nbytes // max(1, batch))
    often = max(1, often)
    if often * each * batch <= _TARGET:
        times, slices = often * (_TARGET // (often * each * batch)), batch
    elif often * each <= _TARGET:
        times, slices = often, _TARGET // (often * each)
    else:
        times, slices = max(1, _TARGET // each), 1
    return times, slices, *map(_at_least_one, rest)


def _at_least_one(length: int) -> int:
    return max(1, length)


def encode(values: np.ndarray) -> bytes:
    """Return the file of a chunk of numbers."""
    return _compressed(np.ascontiguousarray(values))


def encode_texts(texts: list[str]) -> bytes:
    """Return the file of a chunk of texts."""
    from numcodecs.vlen import VLenUTF8

    return _compressed(VLenUTF8().encode(np.array(texts, object)))


def _compressed(data: Any) -> bytes:
    from google_crc32c import value
    from numcodecs.zstd import compress

    packed: bytes = compress(data, _LEVEL)
    return packed + int(value(packed)).to_bytes(_CHECKSUM, "little")


def _decoded(path: Path) -> bytes:
    """Return what a file of a chunk holds; raises DamagedError unless it is as it was written."""
    from google_crc32c import value
    from numcodecs.zstd import decompress

    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError:
        raise DamagedError(f"{path}: this chunk is missing") from None
    except OSError as error:
        raise DamagedError(f"{path}: this chunk cannot be read: {reason(error)}") from error
    packed, stated = data[:-_CHECKSUM], data[-_CHECKSUM:]
    if len(stated) < _CHECKSUM or int(value(packed)).to_bytes(_CHECKSUM, "little") != stated:
        raise DamagedError(f"{path}: this chunk is damaged: its bytes have changed")
    try:
        return bytes(decompress(packed))
    except (RuntimeError, ValueError) as error:
        raise DamagedError(f"{path}: this chunk is damaged: {error}") from error


def decoded(path: Path, dtype: str, chunk: Sequence[int]) -> np.ndarray:
    """Return the numbers of a chunk; raises DamagedError unless it is as it was written."""
    data = _decoded(path)
    if len(data) != math.prod(chunk) * np.dtype(dtype).itemsize:
        raise DamagedError(f"{path}: this chunk is damaged: it has {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(chunk)


@dataclass(frozen=True)
class Chunked:
    """An array `[time, ...]` of a store, as its chunks; those of one range of slices are a column."""

    folder: Path
    dtype: str
    shape: tuple[int, ...]
    """That of one record."""
    chunk: tuple[int, ...]

    @property
    def width(self) -> int:
        """Slices of a column; where there is no batch, the length of the first axis."""
        return self.chunk[1] if self.shape else 1

    @property
    def columns(self) -> int:
        """Number of columns."""
        return -(-self.shape[0] // self.width) if self.shape else 1

    def slices(self, column: int) -> tuple[int, int]:
        """Return the range of slices of a column."""
        return column * self.width, min((column + 1) * self.width, self.shape[0] if self.shape else 1)

    def put(self, at: int, column: int, values: np.ndarray) -> None:
        """Write records `[n, slices of the column, ...]` from `at` on, durably; raises StorageError."""
        if not values.size:
            return
        many = self.chunk[0]
        for row in range(at // many, (at + len(values) - 1) // many + 1):
            first = row * many
            begin, end = max(at, first), min(at + len(values), first + many)
            whole = np.zeros(self.chunk, self.dtype)
            inside = self._inside(whole, column)
            if begin > first:
                inside[: begin - first] = self._read(row, column)[: begin - first]
            inside[begin - first : end - first] = values[begin - at : end - at]
            path = self.file(row, column)
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path) as file:
                file.write(encode(whole))

    def get(self, at: int, count: int, column: int) -> Iterator[np.ndarray]:
        """Yield records `at` to `at + count - 1` of a column, chunk by chunk; raises DamagedError."""
        lo, hi = self.slices(column)
        if 0 in self.shape or not count:
            yield np.zeros((count, *((hi - lo, *self.shape[1:]) if self.shape else ())), self.dtype)
            return
        many = self.chunk[0]
        for row in range(at // many, (at + count - 1) // many + 1):
            begin, end = max(at, row * many), min(at + count, (row + 1) * many)
            yield self._read(row, column)[begin - row * many : end - row * many]

    def checksum(self, at: int, count: int, column: int, before: int) -> int:
        """Return the CRC-32 of such records after that of those `before` them."""
        for values in self.get(at, count, column):
            before = checksum(values, before)
        return before

    def file(self, row: int, column: int) -> Path:
        """Return the path of a chunk."""
        places = [row, column, *[0] * (len(self.chunk) - 2)][: len(self.chunk)]
        return self.folder.joinpath("c", *map(str, places))

    def drop_from(self, count: int) -> None:
        """Remove the chunks after the first `count` records."""
        kept = -(-count // self.chunk[0])
        for place in self.folder.glob("c/*"):
            if place.name.isdigit() and int(place.name) >= kept:
                for path in (*sorted(place.rglob("*"), reverse=True), place):
                    path.rmdir() if path.is_dir() else path.unlink()

    def _inside(self, whole: np.ndarray, column: int) -> np.ndarray:
        """Return the part of a chunk that is within the array."""
        if not self.shape:
            return whole
        lo, hi = self.slices(column)
        return whole[:, : hi - lo]

    def _read(self, row: int, column: int) -> np.ndarray:
        return self._inside(decoded(self.file(row, column), self.dtype, self.chunk), column)


def checksum(values: np.ndarray, before: int = 0) -> int:
    """Return the CRC-32 of values after that of those `before` them."""
    return zlib.crc32(np.ascontiguousarray(values).tobytes(), before)
