"""Pixel conversion: scaling and colour channels."""

from __future__ import annotations

import numpy as np

from petabatch.errors import InputError

MOST_PIXELS = (1 << 30) // 4 // 3
"""Largest number of pixels of an image that is decoded, as pillow has it: 256 MiB in colour."""
GREY = (0.30, 0.59, 0.11)
"""Weights of red, green and blue for conversion to greyscale (PetaVision's `Image.cpp:165-190`)."""


def largest(dtype: np.dtype, name: str) -> float:
    """Return the stored value that represents 1: 255 and 65535 for 8 and 16 bit integers, else 1.

    Raises InputError for types that cannot hold pixels.
    """
    if dtype.kind in "fb":
        return 1.0
    if dtype.kind == "u" and dtype.itemsize in (1, 2):
        return float(np.iinfo(dtype).max)
    raise InputError(
        f"{name}: these numbers are not pixels\n    found:    {dtype}\n"
        f"    expected: uint8 (0 to 255), uint16 (0 to 65535), bool or floating point\n"
        f"    hint:     convert them, as by images.astype(numpy.uint8) where they are 0 to 255"
    )


def too_large(path: str, rows: int, columns: int) -> InputError | None:
    """Return the error if an image of this size is refused rather than decoded, else None."""
    if rows * columns <= MOST_PIXELS:
        return None
    return InputError(
        f"{path}: this image is too large to be decoded\n    found:    {rows} rows, {columns} columns\n"
        f"    expected: at most {MOST_PIXELS:,} pixels\n"
        f"    hint:     of a .npy file or a dataset of HDF5, only the parts that are shown are read"
    )


def convertible(found: int, wanted: int) -> bool:
    """Return whether an image with `found` channels can be converted to `wanted` channels."""
    return found == wanted or {found, wanted} == {1, 3}


def channels(pixels: np.ndarray, wanted: int) -> np.ndarray:
    """Return pixels `[ny, nx, wanted]`: greyscale is repeated in three channels, colours are averaged."""
    found = pixels.shape[-1]
    if found == wanted:
        return pixels
    if found == 1:
        return np.repeat(pixels, wanted, axis=-1)
    return np.asarray(np.sum(pixels * GREY, axis=-1, keepdims=True))
