"""Image files: PNG, JPEG and whatever else pillow reads, and `.npy` files of one image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from petabatch.errors import InputError, ResourceError
from petabatch.sources.files import open_npy, unreadable
from petabatch.sources.gallery import Gallery

CACHE_BYTES = 256 << 20
"""Decoded images kept in memory by one source, in bytes."""

_EXPECTED = "a whole PNG, JPEG or other image file, or a .npy file of one image"

_AS_STORED = {"L", "RGB", "I;16", "I;16L", "I;16B", "I", "F"}
"""Pillow's modes that numpy sees as pixels; others are converted, which drops transparency."""
_GREY = {"1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "I", "F"}


def pictures(paths: Sequence[str]) -> Gallery:
    """Return the gallery of image files; looks at the header of each, and decodes them when they are shown.

    Raises InputError for a file that is missing or no image, ResourceError without pillow.
    """
    shapes = [_shape(path) for path in paths]
    biggest = max(8 * ny * nx * nf for ny, nx, nf in shapes)
    decoded = lru_cache(maxsize=max(1, CACHE_BYTES // biggest))(_decode)
    return Gallery(
        shapes, lambda number, rows, columns: decoded(paths[number])[rows, columns], paths.__getitem__
    )


def _shape(path: str) -> tuple[int, int, int]:
    if path.endswith(".npy"):
        ny, nx, nf = _decode(path).shape
        return ny, nx, nf
    pillow = _pillow()
    try:
        with pillow.open(path) as picture:
            return picture.height, picture.width, 1 if picture.mode in _GREY else 3
    except (OSError, SyntaxError, ValueError) as error:
        raise unreadable(path, error, _EXPECTED) from error


def _decode(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return _array(path)
    pillow = _pillow()
    try:
        with pillow.open(path) as picture:
            mode = picture.mode
            kept = picture if mode in _AS_STORED else picture.convert("L" if mode in _GREY else "RGB")
            pixels = np.asarray(kept)
    except (OSError, SyntaxError, ValueError) as error:
        raise unreadable(path, error, _EXPECTED) from error
    return pixels.reshape(*pixels.shape[:2], -1)


def _array(path: str) -> np.ndarray:
    pixels = open_npy(path)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise InputError(
            f"{path}: this is not one image\n    found:    an array {list(pixels.shape)}\n"
            f"    expected: [ny, nx] or [ny, nx, nf]\n"
            f'    hint:     an array of many images is a source of type "array"'
        )
    return pixels.reshape(*pixels.shape[:2], -1)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ResourceError(
            'reading images needs pillow\n    hint:     pip install "petabatch[images]"'
        ) from error
    return Image
