"""Headers of image files, all read before the run, so that a bad file is reported at the start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from petabatch.errors import InputError, ResourceError
from petabatch.progress import with_progress
from petabatch.sources.files import open_npy, unreadable
from petabatch.sources.pixels import largest

EXPECTED = "a complete PNG, JPEG or other image file, or a .npy file of one image"
GREY_MODES = {"1", "L", "LA", "I;16", "I;16L", "I;16B", "F"}
"""Pillow modes with one channel."""

_END_MARKERS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
"""Markers near the end of a complete file, by format."""
_END = 4096
"""Bytes at the end of a file that are searched for the marker; if it is missing there, the image is
decoded."""
_THREADS = 8
"""Files opened concurrently: on a network file system, opening a file is mostly latency."""
_LISTED = 5
"""Number of errors reported in full; the others are only counted and named."""


def headers(paths: Sequence[str]) -> list[tuple[int, int, int] | InputError]:
    """Return the shape `[ny, nx, nf]` of each image file.

    In place of a shape stands the error of a file that is missing, truncated or not an image, as far as this
    can be determined without decoding it. Raises ResourceError if pillow is not installed.
    """
    with ThreadPoolExecutor(_THREADS, "headers") as pool:
        message = f"reading the headers of {len(paths):,} image files"
        return list(with_progress(pool.map(_shape, paths), len(paths), message))


def raise_together(errors: Sequence[InputError]) -> None:
    """Raise one error that reports all of them, the first few in full; return if there are none."""
    if not errors:
        return
    lines = [str(error) for error in errors[:_LISTED]]
    if len(errors) > _LISTED:
        more = [str(error).split(": ", 1)[0] for error in errors[_LISTED : 4 * _LISTED]]
        lines.append(
            f"and {len(errors) - _LISTED:,} more: {', '.join(more)}"
            f"{', ...' if len(errors) > 4 * _LISTED else ''}"
        )
    raise InputError("\n".join(lines))


def pillow() -> Any:
    """Return the module `PIL.Image`; raises ResourceError if pillow is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ResourceError(
            'reading images requires pillow\n    hint:     pip install "petabatch[images]"'
        ) from error
    return Image


def pillow_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that pillow raises for files it cannot read."""
    return (OSError, SyntaxError, ValueError, pillow().DecompressionBombError)


def npy_image(path: str) -> Any:
    """Return the memory-mapped image of a `.npy` file, `[ny, nx, nf]`."""
    pixels = open_npy(path)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise InputError(
            f"{path}: this is not one image\n    found:    an array {list(pixels.shape)}\n"
            f"    expected: [ny, nx] or [ny, nx, nf]\n"
            f'    hint:     for an array of many images, use a source of type "array"'
        )
    largest(pixels.dtype, path)
    return pixels.reshape(*pixels.shape[:2], -1)


def _shape(path: str) -> Any:
    """Return the shape of an image file, or the error."""
    try:
        return npy_image(path).shape if path.endswith(".npy") else _pillow_shape(path)
    except InputError as error:
        return error


def _pillow_shape(path: str) -> tuple[int, int, int]:
    try:
        with pillow().open(path) as picture:
            if picture.mode == "I":
                raise InputError(
                    f"{path}: these numbers are not pixels\n    found:    32-bit integers\n"
                    f"    expected: 8 or 16 bits per channel, or floating point"
                )
            marker = _END_MARKERS.get(picture.format or "")
            if marker is not None and not _ends_with(path, marker):
                picture.load()  # some cameras append data after the marker
            return picture.height, picture.width, 1 if picture.mode in GREY_MODES else 3
    except pillow_errors() as error:
        raise unreadable(path, error, EXPECTED) from error


def _ends_with(path: str, marker: bytes) -> bool:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _END))
        return marker in file.read()
