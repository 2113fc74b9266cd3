"""Frames of video files."""

from __future__ import annotations

import threading
from collections.abc import Generator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from petabatch.errors import InputError, ResourceError
from petabatch.sources.files import unreadable
from petabatch.sources.gallery import Gallery
from petabatch.sources.paths import Files, listed
from petabatch.sources.pictures import CACHE_BYTES
from petabatch.sources.view import Order, View

if TYPE_CHECKING:
    from av import VideoFrame

_SUFFIXES = (".mp4", ".mkv", ".avi", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".gif")
_OPEN = 64
"""Places of a file that are kept open, so that as many slices read on from where they were."""


class Video(View):
    """Videos: MP4, Matroska and whatever else FFmpeg reads, as colour images, one for each frame."""

    type: Literal["video"] = "video"
    files: Files
    """A file, a folder, a pattern as `films/*.mp4`, a `.txt` file that lists one of these a line, or several
    of these. The frames of all files are one long row of images, in the order of the names."""
    order: Order = "movie"

    def paths(self) -> list[str]:
        """Find the files; raises InputError where there are none."""
        return listed(self.files, _SUFFIXES, "videos")

    def gallery(self) -> Gallery:
        """Open the files and count their frames; raises ResourceError without PyAV."""
        films = [Film(path) for path in self.paths()]
        places = [(film, number) for film in films for number in range(len(film.times))]
        biggest = max(film.rows * film.columns * 3 for film in films)

        def decode(number: int) -> np.ndarray:
            film, own = places[number]
            return film.frame(own)

        frame = lru_cache(maxsize=max(1, CACHE_BYTES // biggest))(decode)
        return Gallery(
            [(film.rows, film.columns, 3) for film, _ in places],
            lambda number, rows, columns: frame(number)[rows, columns],
            lambda number: f"{places[number][0].path}, frame {places[number][1]}",
        )


class Film:
    """One video file; `frame` is thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._waiting: dict[int, Generator[VideoFrame]] = {}
        """Decoders by the frame they give next, the one used last at the end."""
        try:
            with _av().open(path) as container:
                stream = container.streams.video[0]
                self.rows, self.columns = stream.height, stream.width
                self.times = sorted(p.pts for p in container.demux(stream) if p.pts is not None)
        except (OSError, IndexError, ValueError) as error:
            raise unreadable(path, error, "a whole video file") from error
        if not self.times:
            raise InputError(f"{path}: there are no frames in this video\n    expected: at least one")

    def frame(self, number: int) -> np.ndarray:
        """Return frame `number`, `[rows, columns, 3]`, uint8; raises InputError when it is broken."""
        with self._lock:
            decoder = self._waiting.pop(number, None) or self._from(number)
            try:
                pixels: np.ndarray = next(decoder).to_ndarray(format="rgb24")
            except (OSError, ValueError, StopIteration) as error:
                raise unreadable(self.path, error, f"a video whose frame {number} can be decoded") from error
            self._waiting[number + 1] = decoder
            if len(self._waiting) > _OPEN:
                self._waiting.pop(next(iter(self._waiting))).close()
        return pixels

    def _from(self, number: int) -> Generator[VideoFrame]:
        """Decode from frame `number` on: what comes before it since the last key frame is passed over."""
        with _av().open(self.path) as container:
            stream = container.streams.video[0]
            container.seek(self.times[number], stream=stream)
            for frame in container.decode(stream):
                if frame.pts is not None and frame.pts >= self.times[number]:
                    yield frame


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise ResourceError(
            'reading videos needs PyAV\n    hint:     pip install "petabatch[video]"'
        ) from error
    return av
