"""MNIST: images in idx files."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.regular_files import open_regular
from petabatch.sources.files import MOST_BYTES, MOST_MISSING, decompressed_too_large, mapped, unreadable
from petabatch.sources.gallery import Gallery, stacked
from petabatch.sources.shared import shared, shared_handle
from petabatch.sources.view import View
from petabatch.spec.paths import FilePath

_HEADER = struct.Struct(">4B3I")
_GZIP = b"\x1f\x8b"
_TOGETHER = 1 << 20
"""Bytes that are decompressed at a time."""
_EXPECTED = "an idx file of images, such as train-images-idx3-ubyte.gz"


class Idx(View):
    """Greyscale images in an idx file, as MNIST and Fashion-MNIST are distributed, also gzipped.

    A plain file is read in parts, a gzipped one is decompressed in memory.
    """

    type: Literal["idx"] = "idx"
    file: FilePath
    """The file of images, such as `train-images-idx3-ubyte.gz`."""

    def paths(self) -> tuple[str, ...]:
        """Return the file."""
        return (self.file,)

    def gallery(self) -> Gallery:
        """Open the file; raises InputError if it is not an idx file of images."""
        return _images(self.file)


@shared
def _images(path: str) -> Gallery:
    """Return the images of a file; those that are missing at its end are bad."""
    file = _opened(path, Path(path).suffix == ".gz")
    (count, ny, nx), pixels = file.shape, file.pixels
    problem = None if file.early is None else unreadable(path, file.early, _EXPECTED)
    size = ny * nx
    whole = min(len(pixels) // max(1, size), count)
    if len(pixels) != count * size:
        problem = problem or InputError(
            f"{path}: the length of this file is wrong\n    found:    {len(pixels):,} pixels\n"
            f"    expected: {count * size:,}, for {count:,} images {ny} x {nx}"
        )
    if not whole or len(pixels) > count * size or count - whole > MOST_MISSING:
        raise problem or InputError(f"{path}: there are no images in this file")
    images = pixels[: whole * size].reshape(whole, ny, nx, 1)
    return stacked(images, path, file, count - whole, problem)


@dataclass(frozen=True)
class _File:
    """An open file, decompressed if it is compressed."""

    shape: tuple[int, int, int]
    """Number of images, rows and columns."""
    pixels: np.ndarray
    """uint8, one image after the other."""
    early: EOFError | None = None
    """The error if it is compressed and ends too early."""


@shared_handle
def _opened(path: str, compressed: bool) -> _File:
    """Open a file.

    Raises InputError if it cannot be read, also if its checksum is wrong, which does not tell which of its
    images are damaged.
    """
    try:
        if not compressed:
            stored = mapped(path)
            return _File(_shape(path, stored[: _HEADER.size].tobytes()), stored[_HEADER.size :])
        with open_regular(path) as stored_file, gzip.open(stored_file) as file:
            shape = _shape(path, file.read(_HEADER.size))
            if (size := math.prod(shape)) > MOST_BYTES:
                raise decompressed_too_large(path, size, f"gunzip {path}")
            content, early = bytearray(), None
            try:
                while len(content) <= size and (part := file.read1(_TOGETHER)):
                    content += part
            except EOFError as error:
                early = error.with_traceback(None)  # which would keep this frame alive
            pixels = np.frombuffer(content, np.uint8)
            pixels.flags.writeable = False
            return _File(shape, pixels, early)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:  # ValueError: an empty file
        plain = isinstance(error, gzip.BadGzipFile) and str(error).startswith("Not a gzipped file")
        expected = f"{_EXPECTED}; one that is not gzipped has a name without .gz" if plain else _EXPECTED
        raise unreadable(path, error, expected) from error


def _shape(path: str, header: bytes) -> tuple[int, int, int]:
    """Return the shape that a header tells; raises InputError if it is not one of images."""
    if len(header) < _HEADER.size:
        raise InputError(f"{path}: this file is too short\n    expected: {_EXPECTED}")
    *magic, count, ny, nx = _HEADER.unpack(header)
    if magic != [0, 0, 8, 3]:
        hints = {
            _GZIP: "it is gzipped: give it a name that ends in .gz",
            bytes([0, 0, 8, 1]): "these are labels; images are in ...-images-idx3-ubyte",
        }
        hint = hints.get(bytes(magic), hints.get(bytes(magic[:2]), ""))
        raise InputError(
            f"{path}: this is not an idx file of images\n    found:    {bytes(magic).hex(' ')}\n"
            f"    expected: 00 00 08 03 (8 bits per pixel, 3 dimensions)"
            + f"\n    hint:     {hint}"
            * bool(hint)
        )
    return count, ny, nx
