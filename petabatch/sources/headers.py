"""Headers of image files, all read before the run, so that a bad file is reported at the start."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from petabatch.errors import InputError, ResourceError, install
from petabatch.regular_files import open_regular, regular
from petabatch.sources.files import open_npy, unreadable
from petabatch.sources.over_files import errors_of, over_files
from petabatch.sources.pixels import MOST_PIXELS, largest, too_large
from petabatch.sources.png import has_chunk, png_shape

EXPECTED = "a complete PNG, JPEG or other image file, or a .npy file of one image"
_VAN_HATEREN = (".iml", ".imc")
"""Suffixes of the images of van Hateren and van der Schaaf (Proceedings of the Royal Society B 265, 1998,
359-366): numbers of 16 bits, high byte first, and no header."""
_VAN_HATEREN_SHAPE = (1024, 1536)
GREY_MODES = {"1", "L", "LA", "I", "I;16", "I;16L", "I;16B", "F"}
"""Pillow modes with one channel."""

_ORIENTATION = 0x112
"""Tag of EXIF: how the stored rows and columns are to be turned; from 5 on they change places."""
_END_MARKERS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
"""Markers near the end of a complete file, by format."""
_END = 4096
"""Bytes at the end of a file that are searched for the marker; if it is missing there, the image is
decoded."""
_LISTED = 5
"""Number of errors reported in full; the others are only counted and named."""


def headers(paths: Sequence[str]) -> list[tuple[int, int, int] | InputError]:
    """Return the shape `[ny, nx, nf]` of each image file.

    In place of a shape stands the error of a file that is missing, truncated or not an image, as far as this
    can be determined without decoding it. Raises ResourceError if pillow is not installed.
    """
    needed = any(not is_array(path) for path in paths)
    most = min(MOST_PIXELS, pillow().MAX_IMAGE_PIXELS or MOST_PIXELS) if needed else 0
    shape = errors_of(lambda path: _shape(path, most))
    return over_files(shape, paths, f"reading the headers of {len(paths):,} image files")


def raise_together(errors: Sequence[InputError]) -> None:
    """Raise one error that reports all of them, the first few in full; return if there are none."""
    errors = list(dict.fromkeys(errors))  # one error may be about several images
    if not errors:
        return
    lines = [str(error) for error in errors[:_LISTED]]
    if len(errors) > _LISTED:
        more = [str(error).split(": ", 1)[0] for error in errors[_LISTED : 4 * _LISTED]]
        lines.append(
            f"and {len(errors) - _LISTED:,} more: {', '.join(more)}"
            f"{', ...' if len(errors) > 4 * _LISTED else ''}"
        )
    together = InputError("\n".join(lines))
    keys = {error.key for error in errors}
    together.key = keys.pop() if len(keys) == 1 else ""
    raise together


def pillow() -> Any:
    """Return the module `PIL.Image`; raises ResourceError if pillow is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ResourceError(f"reading images requires pillow\n    hint:     {install('images')}") from error
    return Image


def pillow_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that pillow raises for files it cannot read."""
    image = pillow()
    bombs = image.DecompressionBombError, image.DecompressionBombWarning
    return (
        OSError,
        SyntaxError,
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        MemoryError,
        struct.error,
        *bombs,
    )


def orientation(picture: Any) -> int:
    """Return how pillow's pixels of an open picture are to be turned, 1 to 8; 1: they are upright."""
    if picture.format == "TIFF":  # pillow has turned them
        return 1
    try:
        found = picture.getexif().get(_ORIENTATION)
    except pillow_errors():  # pixels are of use without
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def is_array(path: str) -> bool:
    """Return whether an image file is an array that can be read in parts."""
    return path.lower().endswith((".npy", *_VAN_HATEREN))


def array_image(path: str) -> Any:
    """Return the memory-mapped image of a `.npy` file, or one of van Hateren's, `[ny, nx, nf]`."""
    if path.lower().endswith(_VAN_HATEREN):
        return _van_hateren(path)
    pixels = open_npy(path)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise InputError(
            f"{path}: this is not one image\n    found:    an array {list(pixels.shape)}\n"
            f"    expected: [ny, nx] or [ny, nx, nf]\n"
            f'    hint:     for an array of many images, use a source of type "array"'
        )
    largest(pixels.dtype, path)
    return pixels.reshape(*pixels.shape[:2], -1)


def _van_hateren(path: str) -> Any:
    expected = f"an image of van Hateren's: {' x '.join(map(str, _VAN_HATEREN_SHAPE))} numbers of 16 bits"
    try:
        found = os.stat(regular(path)).st_size
        if found != 2 * math.prod(_VAN_HATEREN_SHAPE):
            raise ValueError(f"it has {found:,} bytes")
        return np.memmap(path, ">u2", "r", shape=(*_VAN_HATEREN_SHAPE, 1))
    except (OSError, ValueError) as error:
        raise unreadable(path, error, expected) from error


def _shape(path: str, most: int) -> tuple[int, int, int]:
    """Return the shape of an image file."""
    if not is_array(path):
        return _complete_png(path, most) or _pillow_shape(path)
    ny, nx, nf = array_image(path).shape
    return ny, nx, nf


def _complete_png(path: str, most: int) -> tuple[int, int, int] | None:
    """Return the shape of an image if it is a complete PNG as most are; pillow says what others are.

    Pillow is also to say why images of more than `most` pixels are refused.
    """
    try:
        with open_regular(path) as opened:
            file, marker = opened.fileno(), _END_MARKERS["PNG"]
            head = os.pread(file, _END, 0)
            whole = marker in head if len(head) < _END else _ends_with(file, marker)
            shape = png_shape(head, most) if whole else None
            return None if shape is not None and has_chunk(file, b"eXIf") else shape
    except (OSError, ValueError):
        return None


def _pillow_shape(path: str) -> tuple[int, int, int]:
    try:
        with open_regular(path) as file, pillow().open(file) as picture:
            if (problem := too_large(path, picture.height, picture.width)) is not None:
                raise problem
            if picture.mode == "I" and picture.format != "PPM":  # which has 16 bits
                raise InputError(
                    f"{path}: these numbers are not pixels\n    found:    32-bit integers\n"
                    f"    expected: 8 or 16 bits per channel, or floating point"
                )
            marker = _END_MARKERS.get(picture.format or "")
            if marker is not None and not _ends_with(file.fileno(), marker):
                picture.load()  # some cameras append data after the marker
            size = picture.height, picture.width
            rows, columns = size[::-1] if orientation(picture) > 4 else size
            return rows, columns, 1 if picture.mode in GREY_MODES else 3
    except pillow().UnidentifiedImageError as error:
        raise unreadable(path, ValueError("it is not an image of a known format"), EXPECTED) from error
    except pillow_errors() as error:
        raise unreadable(path, error, EXPECTED) from error


def _ends_with(file: int, marker: bytes) -> bool:
    """Return whether an open file has the marker near its end; its position stays the same."""
    return marker in os.pread(file, _END, max(0, os.fstat(file).st_size - _END))
