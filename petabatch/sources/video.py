"""Films in files: videos, and TIFF files of several frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from petabatch.errors import InputError
from petabatch.sources.cache import ImageCache
from petabatch.sources.decoders import DECODERS, Film, open_film
from petabatch.sources.gallery import NOTHING, Gallery
from petabatch.sources.orders import AnOrder, Movie
from petabatch.sources.over_files import errors_of, over_files
from petabatch.sources.paths import Files, find_files
from petabatch.sources.shared import shared
from petabatch.sources.tiff import Stack
from petabatch.sources.view import View

_SUFFIXES = (".mp4", ".mkv", ".avi", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".gif", ".tif", ".tiff")
_STACKS = (".tif", ".tiff")


class Video(View):
    """Frames of video files as colour images: MP4, Matroska and other formats supported by FFmpeg.

    TIFF files of several frames are films, too, grey or in colour, of 8 or 16 bits or floating point.
    """

    type: Literal["video"] = "video"
    files: Files
    """A file, a folder, a pattern such as `films/*.mp4`, a `.txt` file that lists one of these per line, or
    an array of these. The files of a folder or pattern are sorted by name, `frame_2` before `frame_10`."""
    order: AnOrder = Field(default_factory=Movie)
    """Order of the films; see the types of order."""

    def paths(self) -> list[str]:
        """Return the files; raises InputError if there are none."""
        return find_files(self.files, _SUFFIXES, "videos")

    def gallery(self) -> Gallery:
        """Open the files and count their frames; raises ResourceError if what reads them is not installed."""
        return films(self.paths())


@shared
def films(paths: Sequence[str]) -> Gallery:
    """Return the gallery of video files; in place of one that cannot be used stands one bad frame."""
    opened = over_files(errors_of(_opened), paths, f"counting the frames of {len(paths):,} videos")
    good = [film for film in opened if isinstance(film, Film)]
    frames = [(film, number) for film in opened for number in range(_length(film))]
    shapes = [NOTHING if isinstance(film, InputError) else film.shape for film, _ in frames]
    bad = {number: film for number, (film, _) in enumerate(frames) if isinstance(film, InputError)}
    names = [path for path, film in zip(paths, opened, strict=True) for _ in range(_length(film))]

    def decode(number: int) -> np.ndarray:
        film, index = frames[number]
        if isinstance(film, InputError):
            raise film
        return DECODERS.frame(film, index) if isinstance(film, Film) else film.frame(index)

    frame = ImageCache(decode)

    return Gallery(
        shapes,
        lambda number, rows, columns: frame(number)[rows, columns],
        lambda number: f"{names[number]}, frame {frames[number][1]}",
        [_length(film) for film in opened],
        bad=bad,
        holders=[(path, 1) for path in paths],
        expect=lambda reader, places: DECODERS.expect(reader, places, good),
        note=lambda: DECODERS.note,
    )


def _opened(path: str) -> Film | Stack:
    return Stack(path) if path.lower().endswith(_STACKS) else open_film(path)


def _length(film: Film | Stack | InputError) -> int:
    return 1 if isinstance(film, InputError) else film.length
