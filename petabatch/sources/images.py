"""Image files of the user's own."""

from __future__ import annotations

from typing import Literal

from petabatch.sources.gallery import Gallery
from petabatch.sources.paths import Files, listed
from petabatch.sources.pictures import pictures
from petabatch.sources.view import View

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".npy")


class Images(View):
    """Image files: PNG, JPEG and others that pillow reads, and `.npy` files of one image `[ny, nx, nf]`."""

    type: Literal["images"] = "images"
    files: Files
    """A file, a folder, a pattern as `pictures/**/*.png`, a `.txt` file that lists one of these a line, or
    several of these. A folder's and a pattern's files come in the order of their names."""

    def paths(self) -> list[str]:
        """Find the files; raises InputError where there are none."""
        return listed(self.files, _SUFFIXES, "images")

    def gallery(self) -> Gallery:
        """Find the files and read their headers."""
        return pictures(self.paths())
