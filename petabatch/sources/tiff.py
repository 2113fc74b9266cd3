"""TIFF files of several frames, as films; tifffile reads them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from petabatch.errors import InputError, ResourceError, install
from petabatch.regular_files import regular
from petabatch.sources.files import unreadable
from petabatch.sources.pixels import largest, too_large

_EXPECTED = "a complete TIFF file of grey or colour frames"
_CHANNELS = {1: 1, 2: 1, 3: 3, 4: 3}
"""Channels that are shown, by those that are stored: transparency is dropped."""
_PLAIN = ("MINISBLACK", "RGB")
"""Photometric interpretations in which numbers are pixels."""


class Stack:
    """The frames of a TIFF file, which all have one size."""

    def __init__(self, path: str) -> None:
        """Read the size of the first frame and count them; raises InputError if they are no images."""
        self.path = path
        try:
            with _opened(path) as file:
                self.length, page = len(file.pages), file.pages.first
                axes, shape, dtype = page.axes, page.shape, page.dtype
                photometric = page.photometric.name
        except _errors() as error:
            raise unreadable(path, error, _EXPECTED) from error
        sizes = dict(zip(axes, shape, strict=True))
        stored = sizes.get("S", 1)
        if sorted(axes) not in (["X", "Y"], ["S", "X", "Y"]) or stored not in _CHANNELS:
            raise InputError(f"{path}: these are not images\n    found:    axes {axes} {list(shape)}")
        if photometric not in _PLAIN:
            raise InputError(
                f"{path}: these numbers are not pixels\n    found:    {photometric.lower()}\n"
                f"    expected: {_EXPECTED}"
            )
        largest(dtype, path)
        if (problem := too_large(path, sizes["Y"], sizes["X"])) is not None:
            raise problem
        self.shape = sizes["Y"], sizes["X"], _CHANNELS[stored]

    def frame(self, number: int) -> np.ndarray:
        """Return a frame `[rows, columns, channels]`; raises InputError if it cannot be read."""
        try:
            with _opened(self.path) as file:
                page = file.pages[number]
                pixels, axes = np.asarray(page.asarray()), page.axes
        except _errors() as error:
            raise unreadable(self.path, error, f"a TIFF file whose frame {number} can be read") from error
        pixels = np.moveaxis(pixels, 0, -1) if axes[:1] == "S" else pixels
        pixels = pixels.reshape(*pixels.shape[:2], -1)[..., : self.shape[2]]
        if pixels.shape != self.shape:
            raise InputError(
                f"{self.path}: the frames of this file differ in size\n"
                f"    found:    {list(pixels.shape)} in frame {number}\n    expected: {list(self.shape)}"
            )
        return pixels


def _tifffile() -> Any:
    try:
        import tifffile
    except ImportError as error:
        raise ResourceError(
            f"reading TIFF files of several frames requires tifffile\n    hint:     {install('images')}"
        ) from error
    return tifffile


def _opened(path: str) -> Any:
    """Open a file as TIFF, and nothing that it names."""
    return _tifffile().TiffFile(regular(path), _multifile=False)


def _errors() -> tuple[type[Exception], ...]:
    """Return what tifffile raises for damaged files."""
    return (
        _tifffile().TiffFileError,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
        struct.error,
    )
