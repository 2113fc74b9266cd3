"""Image files of the user's own."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from petabatch.errors import InputError
from petabatch.sources.gallery import Gallery
from petabatch.sources.paths import FilePath, beside
from petabatch.sources.pictures import pictures
from petabatch.sources.view import View

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".npy")


class Images(View):
    """Image files: PNG, JPEG and others that pillow reads, and `.npy` files of one image `[ny, nx, nf]`."""

    type: Literal["images"] = "images"
    files: FilePath | Annotated[tuple[FilePath, ...], Field(min_length=1)]
    """A file, a folder, a pattern as `pictures/**/*.png`, a `.txt` file that lists one of these a line, or
    several of these. A folder's and a pattern's files come in the order of their names."""

    def gallery(self) -> Gallery:
        """Find the files and read their headers."""
        entries = (self.files,) if isinstance(self.files, str) else self.files
        return pictures([path for entry in entries for path in find(entry)])


def find(entry: str) -> list[str]:
    """Return the image files that `entry` names; raises InputError when there are none."""
    if os.path.isdir(entry):
        found = [str(p) for p in sorted(Path(entry).iterdir()) if p.suffix.lower() in _SUFFIXES]
    elif os.path.exists(entry):
        found = _listed(Path(entry)) if entry.endswith(".txt") else [entry]
    else:
        found = sorted(glob.glob(entry, recursive=True))
    if not found:
        raise InputError(
            f"{entry}: there are no images here\n"
            f"    expected: an image file, a folder of images, a pattern as *.png, or a .txt list of these\n"
            f"    hint:     paths are relative to the params file or to {Path.cwd()}"
        )
    return found


def _listed(file: Path) -> list[str]:
    """Return the images of a list: one entry a line, relative to the list; `#` starts a comment line."""
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: this list of images cannot be read: {error}") from error
    entries = [line for line in lines if line and not line.startswith("#")]
    return [path for entry in entries for path in find(beside(entry, file.parent))]
