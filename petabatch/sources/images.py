"""Image files."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.sources.gallery import Gallery
from petabatch.sources.headers import is_array
from petabatch.sources.paths import Files, find_files
from petabatch.sources.pictures import pictures
from petabatch.sources.view import View

_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm"),
    *(".npy", ".iml", ".imc"),
)


class Images(View):
    """Image files: PNG, JPEG and other formats of pillow, or `.npy` files of one image `[ny, nx, nf]`.

    Files `.iml` and `.imc` are those of van Hateren and van der Schaaf (1998), 1024 x 1536 grey pixels of 16
    bits. Of TIFF files of several frames the first is shown; type `video` shows all.
    """

    type: Literal["images"] = "images"
    files: Files
    """A file, a folder, a pattern such as `pictures/**/*.png`, a `.txt` file that lists one of these per
    line, or an array of these. The files of a folder or pattern are sorted by name, `frame_2` before
    `frame_10`."""

    def paths(self) -> list[str]:
        """Return the files; raises InputError if there are none."""
        return find_files(self.files, _SUFFIXES, "images")

    @property
    def decoded(self) -> int:
        """Those of the longest numbers that pillow decodes; arrays are read in part."""
        names = (self.files,) if isinstance(self.files, str) else self.files
        return 0 if all(map(is_array, names)) else np.dtype(np.float32).itemsize

    def gallery(self) -> Gallery:
        """Return the images, with the headers read."""
        return pictures(self.paths())
