"""Galleries of image files: PNG, JPEG and other formats of pillow, and arrays of one image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petabatch.errors import InputError
from petabatch.regular_files import open_regular
from petabatch.sources.cache import ImageCache
from petabatch.sources.files import unreadable
from petabatch.sources.gallery import NOTHING, Gallery
from petabatch.sources.headers import (
    EXPECTED,
    GREY_MODES,
    array_image,
    headers,
    is_array,
    orientation,
    pillow,
    pillow_errors,
)
from petabatch.sources.shared import shared

_AS_STORED = {"L", "RGB", "I", "I;16", "I;16L", "I;16B", "F"}
"""Pillow modes that numpy reads as pixels; others are converted, which drops transparency."""


@shared
def pictures(paths: Sequence[str]) -> Gallery:
    """Return the gallery of image files. Headers are read now, pixels when they are displayed.

    Files that are missing or not images are its `bad` ones. Raises ResourceError if pillow is not installed.
    """
    found = headers(paths)
    bad = {number: error for number, error in enumerate(found) if isinstance(error, InputError)}
    shapes = [NOTHING if isinstance(shape, InputError) else shape for shape in found]
    decoded = ImageCache(_decode)

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        path = paths[number]  # of an array only a part is read; it does not stay open
        pixels = array_image(path) if is_array(path) else decoded(path)
        if pixels.shape != shapes[number]:
            raise InputError(
                f"{path}: the shape of this image has changed since the start of the run\n"
                f"    found:    {list(pixels.shape)}\n    expected: {list(shapes[number])}"
            )
        return pixels[rows, columns]

    return Gallery(shapes, read, paths.__getitem__, bad=bad)


def _decode(path: str) -> np.ndarray:
    try:
        # of a path, pillow maps plain TIFF files and turns them wrongly
        with open_regular(path) as file, pillow().open(file) as picture:
            mode = picture.mode
            picture.info.pop("transparency", None)  # else pillow warns
            stored = picture if mode in _AS_STORED else picture.convert("L" if mode in GREY_MODES else "RGB")
            pixels = _upright(np.asarray(stored), orientation(picture))
    except pillow_errors() as error:
        raise unreadable(path, error, EXPECTED) from error
    if mode == "I":
        pixels = pixels.astype(np.uint16)
    return pixels.reshape(*pixels.shape[:2], -1)


def _upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Return pixels as they are to be seen, for an orientation of EXIF."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels[::-1] if orientation in (3, 4, 7, 8) else pixels
