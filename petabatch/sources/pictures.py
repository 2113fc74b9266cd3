"""Image files: PNG, JPEG and whatever else pillow reads, and `.npy` files of one image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.files import unreadable
from petabatch.sources.gallery import Gallery
from petabatch.sources.headers import EXPECTED, GREY, array, faults, headers, pillow

CACHE_BYTES = 256 << 20
"""Decoded images kept in memory by one source, in bytes."""

_AS_STORED = {"L", "RGB", "I;16", "I;16L", "I;16B", "F"}
"""Pillow's modes that numpy sees as pixels; others are converted, which drops transparency."""


def pictures(paths: Sequence[str]) -> Gallery:
    """Return the gallery of image files; looks at the header of each, and decodes them when they are shown.

    Raises InputError for files that are missing or no images, ResourceError without pillow.
    """
    shapes = headers(paths)
    biggest = max(8 * ny * nx * nf for ny, nx, nf in shapes)
    decoded = lru_cache(maxsize=max(1, CACHE_BYTES // biggest))(_decode)

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        pixels = decoded(paths[number])
        if pixels.shape != shapes[number]:
            raise InputError(
                f"{paths[number]}: this image has changed since the run looked at it\n"
                f"    found:    {list(pixels.shape)}\n    expected: {list(shapes[number])}"
            )
        return pixels[rows, columns]

    return Gallery(shapes, read, paths.__getitem__)


def _decode(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return np.asarray(array(path))
    try:
        with pillow().open(path) as picture:
            mode = picture.mode
            kept = picture if mode in _AS_STORED else picture.convert("L" if mode in GREY else "RGB")
            pixels = np.asarray(kept)
    except faults() as error:
        raise unreadable(path, error, EXPECTED) from error
    return pixels.reshape(*pixels.shape[:2], -1)
