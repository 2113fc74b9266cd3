"""Decoders of video files: a bounded pool, in which each decodes its film forward."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from petabatch.errors import InputError, ResourceError, install
from petabatch.sources.files import unreadable
from petabatch.sources.pixels import too_large

if TYPE_CHECKING:
    from av import VideoFrame

_MOST = 64
"""Largest number of idle decoders of a source: as many slices can continue reading where they were."""


class Film:
    """A video file: the times of its frames."""

    def __init__(self, path: str) -> None:
        """Read the times of all frames; raises InputError if the file is not a complete video."""
        self.path = path
        try:
            with _av().open(path) as container:
                stream = container.streams.video[0]
                self.rows, self.columns = stream.height, stream.width
                packets = (p for p in container.demux(stream) if p.pts is not None and not p.is_discard)
                timed = sorted({p.pts: p.is_keyframe for p in packets}.items())
        except errors() as error:
            raise unreadable(path, error, "a complete video file") from error
        if not timed or not self.rows * self.columns:
            raise InputError(f"{path}: there are no frames in this video\n    expected: at least one")
        if (problem := too_large(path, self.rows, self.columns)) is not None:
            raise problem
        self.shape = self.rows, self.columns, 3
        self.times = [time for time, _ in timed]
        self._keys = sorted({0, *(number for number, (_, key) in enumerate(timed) if key)})

    def key(self, number: int) -> int:
        """Return the last key frame up to frame `number`, from which it can be decoded."""
        return self._keys[max(0, bisect_right(self._keys, number) - 1)]


class Decoders:
    """Decoders of films that wait where they are, `most` of them; `frame` is thread-safe."""

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._lock = most, threading.Lock()
        self._idle: list[_Decoder] = []
        """The most recently used one last."""

    def frame(self, film: Film, number: int) -> np.ndarray:
        """Return a frame, uint8 `[rows, columns, 3]`; raises InputError if it cannot be decoded."""
        try:
            decoder = self._take(film, number)  # dropped, and closed, if it fails
            pixels = decoder.read(number)
        except errors() as error:
            raise unreadable(film.path, error, f"a video whose frame {number} can be decoded") from error
        with self._lock:
            self._idle.append(decoder)
            excess = self._idle.pop(0) if len(self._idle) > self._most else None
        if excess is not None:
            excess.close()
        if pixels.shape != film.shape:
            raise InputError(
                f"{film.path}: the frames of this video differ in size\n"
                f"    found:    {pixels.shape[0]} rows, {pixels.shape[1]} columns in frame {number}\n"
                f"    expected: {film.rows} rows, {film.columns} columns"
            )
        return pixels

    def _take(self, film: Film, number: int) -> _Decoder:
        """Return the decoder next before a frame, which may seek the next key frame; else a new one."""
        with self._lock:
            own = [one for one in self._idle if one.film is film]
            key = film.key(number)
            behind = [one for one in own if one.next <= number and film.key(key - 1) <= one.next]
            ended = [one for one in own if one.next >= len(film.times)]  # of no other use
            chosen = max(behind or ended, key=lambda one: one.next, default=None)
            if chosen is not None:
                self._idle.remove(chosen)
                return chosen
        return _Decoder(film)


class _Decoder:
    """An open video file, decoded from frame to frame by one thread at a time."""

    _frames: Iterator[VideoFrame]

    def __init__(self, film: Film) -> None:
        self.film = film
        self._begin()

    def reaches(self, number: int) -> bool:
        """Return whether frame `number` is ahead, with no key frame between that is nearer."""
        return self.film.key(number) <= self.next <= number

    def read(self, number: int) -> np.ndarray:
        """Return a frame; raises ValueError, or what PyAV raises, if it cannot be decoded."""
        if self.reaches(number) and (pixels := self._forward(number)) is not None:
            return pixels
        # the key frame, not the frame: the key frame after it may come before it in the file
        key = self.film.key(number)
        for start in (key, self.film.key(key - 1)):
            self._container.seek(self.film.times[start], stream=self._stream)
            self._frames = self._container.decode(self._stream)
            if (pixels := self._forward(number)) is not None:
                return pixels
        self.close()  # some formats only find places near the one that is sought
        self._begin()
        if (pixels := self._forward(number)) is not None:
            return pixels
        raise ValueError("it is missing")

    def _begin(self) -> None:
        self._container = _av().open(self.film.path)
        self._stream = self._container.streams.video[0]
        self._stream.codec_context.thread_count = 1  # films are decoded side by side instead
        self._frames = self._container.decode(self._stream)
        self.next = 0
        """The frame that it comes to next."""

    def _forward(self, number: int) -> np.ndarray | None:
        """Return a frame that is ahead, None if it is not.

        Taking the next one instead would make the pixels depend on where decoding began.
        """
        for frame in self._frames:
            if frame.pts is not None and frame.pts >= self.film.times[number]:
                if frame.pts > self.film.times[number]:
                    break
                self.next = number + 1
                pixels: np.ndarray = frame.to_ndarray(format="rgb24")
                return pixels
        return None

    def close(self) -> None:
        self._container.close()


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise ResourceError(f"reading videos requires PyAV\n    hint:     {install('video')}") from error
    return av


def errors() -> tuple[type[Exception], ...]:
    """Return what PyAV raises for damaged files, and for files without pictures."""
    return (_av().FFmpegError, OSError, ValueError, IndexError, AttributeError, TypeError)
