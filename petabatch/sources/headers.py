"""The headers of image files, all read at the start: a bad file is told before the run, not hours into it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from petabatch.errors import InputError, ResourceError
from petabatch.progress import with_progress
from petabatch.sources.files import open_npy, unreadable
from petabatch.sources.pixels import largest

EXPECTED = "a whole PNG, JPEG or other image file, or a .npy file of one image"
GREY = {"1", "L", "LA", "I;16", "I;16L", "I;16B", "F"}
"""Pillow's modes of one channel."""

_ENDS = {"PNG": b"IEND", "JPEG": b"\xff\xd9"}
"""What the last bytes of a whole file hold."""
_END = 4096
"""Bytes in which the end is looked for; with more behind it, as some cameras write, the image is decoded."""
_THREADS = 8
"""Files opened at a time: on a network file system opening one is mostly waiting."""
_LISTED = 5
"""Errors told in full; of more the number."""


def headers(paths: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return `[ny, nx, nf]` of each file, without its pixels.

    Raises InputError with all files that are missing, no images, cut short or hold no pixels, as far as that
    can be told without decoding them; ResourceError without pillow.
    """
    shapes: list[tuple[int, int, int]] = []
    wrong: list[InputError] = []
    with ThreadPoolExecutor(_THREADS, "headers") as pool:
        looks = with_progress(
            pool.map(_look, paths), len(paths), f"reading the headers of {len(paths):,} image files"
        )
        for found in looks:
            if isinstance(found, InputError):
                wrong.append(found)
            else:
                shapes.append(found)
    raise_together(wrong)
    return shapes


def raise_together(errors: Sequence[InputError]) -> None:
    """Raise one error that tells all of them, the first few in full; return when there are none."""
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
    """Return pillow's module of images; raises ResourceError without it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ResourceError(
            'reading images needs pillow\n    hint:     pip install "petabatch[images]"'
        ) from error
    return Image


def faults() -> tuple[type[Exception], ...]:
    """Return what pillow raises for files it cannot read."""
    return (OSError, SyntaxError, ValueError, pillow().DecompressionBombError)


def array(path: str) -> Any:
    """Return the image of a `.npy` file, `[ny, nx, nf]`, mapped into memory."""
    pixels = open_npy(path)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise InputError(
            f"{path}: this is not one image\n    found:    an array {list(pixels.shape)}\n"
            f"    expected: [ny, nx] or [ny, nx, nf]\n"
            f'    hint:     an array of many images is a source of type "array"'
        )
    largest(pixels.dtype, path)
    return pixels.reshape(*pixels.shape[:2], -1)


def _look(path: str) -> Any:
    """Return the shape of a file, or what is wrong with it."""
    try:
        return array(path).shape if path.endswith(".npy") else _picture(path)
    except InputError as error:
        return error


def _picture(path: str) -> tuple[int, int, int]:
    try:
        with pillow().open(path) as picture:
            if picture.mode == "I":
                raise InputError(
                    f"{path}: these numbers are not pixels\n    found:    32-bit integers\n"
                    f"    expected: 8 or 16 bits a channel, or floating point"
                )
            end = _ENDS.get(picture.format or "")
            if end is not None and not _ends_in(path, end):
                picture.load()
            return picture.height, picture.width, 1 if picture.mode in GREY else 3
    except faults() as error:
        raise unreadable(path, error, EXPECTED) from error


def _ends_in(path: str, end: bytes) -> bool:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _END))
        return end in file.read()
