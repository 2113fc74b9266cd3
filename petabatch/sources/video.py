"""Video files."""

from __future__ import annotations

import threading
from collections.abc import Generator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from petabatch.errors import InputError, ResourceError
from petabatch.sources.files import unreadable
from petabatch.sources.gallery import Gallery
from petabatch.sources.orders import AnOrder, Movie
from petabatch.sources.paths import Files, find_files
from petabatch.sources.pictures import CACHE_BYTES
from petabatch.sources.view import View

if TYPE_CHECKING:
    from av import VideoFrame

_SUFFIXES = (".mp4", ".mkv", ".avi", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".gif")
_DECODERS = 64
"""Largest number of open decoders per file: as many slices can continue reading where they were."""


class Video(View):
    """Frames of video files as colour images: MP4, Matroska and other formats supported by FFmpeg."""

    type: Literal["video"] = "video"
    files: Files
    """A file, a folder, a pattern such as `films/*.mp4`, a `.txt` file that lists one of these per line, or
    an array of these. The files of a folder or pattern are sorted by name."""
    order: AnOrder = Field(default_factory=Movie)
    """Order of the films; see the types of order."""

    def paths(self) -> list[str]:
        """Return the files; raises InputError if there are none."""
        return find_files(self.files, _SUFFIXES, "videos")

    def gallery(self) -> Gallery:
        """Open the files and count their frames; raises ResourceError if PyAV is not installed."""
        films = [Film(path) for path in self.paths()]
        frames = [(film, number) for film in films for number in range(len(film.times))]
        biggest = max(film.rows * film.columns * 3 for film in films)

        def decode(number: int) -> np.ndarray:
            film, index = frames[number]
            return film.frame(index)

        frame = lru_cache(maxsize=max(1, CACHE_BYTES // biggest))(decode)
        return Gallery(
            [(film.rows, film.columns, 3) for film, _ in frames],
            lambda number, rows, columns: frame(number)[rows, columns],
            lambda number: f"{frames[number][0].path}, frame {frames[number][1]}",
            [len(film.times) for film in films],
            holders=[(film.path, 1) for film in films],
        )


class Film:
    """One video file; `frame` is thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._waiting: dict[int, Generator[VideoFrame]] = {}
        """Open decoders by the frame they yield next, the most recently used one last."""
        try:
            with _av().open(path) as container:
                stream = container.streams.video[0]
                self.rows, self.columns = stream.height, stream.width
                self.times = sorted(p.pts for p in container.demux(stream) if p.pts is not None)
        except _errors() as error:
            raise unreadable(path, error, "a complete video file") from error
        if not self.times:
            raise InputError(f"{path}: there are no frames in this video\n    expected: at least one")

    def frame(self, number: int) -> np.ndarray:
        """Return frame `number`, uint8 `[rows, columns, 3]`; raises InputError if it cannot be decoded."""
        with self._lock:
            decoder = self._waiting.pop(number, None) or self._from(number)
            try:
                pixels: np.ndarray = next(decoder).to_ndarray(format="rgb24")
            except _errors() as error:
                raise unreadable(self.path, error, f"a video whose frame {number} can be decoded") from error
            self._waiting[number + 1] = decoder
            if len(self._waiting) > _DECODERS:
                self._waiting.pop(next(iter(self._waiting))).close()
        return pixels

    def _from(self, number: int) -> Generator[VideoFrame]:
        """Decode from frame `number` on, skipping the frames between it and the key frame before."""
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
            'reading videos requires PyAV\n    hint:     pip install "petabatch[video]"'
        ) from error
    return av


def _errors() -> tuple[type[Exception], ...]:
    """Return what PyAV raises for damaged files, and for files without pictures."""
    errors: tuple[type[Exception], ...] = (_av().FFmpegError, OSError, ValueError, IndexError, AttributeError)
    return (*errors, StopIteration)
