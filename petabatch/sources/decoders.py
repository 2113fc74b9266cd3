"""Decoders of video files: a bounded pool in each process, in which each decodes its film forward.

Slices at different places of one film have a decoder each. A single one would have to go back to a key frame,
often hundreds of frames away, whenever another slice takes its turn.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from petabatch.errors import InputError, ResourceError, install
from petabatch.regular_files import regular
from petabatch.sources.files import unreadable
from petabatch.sources.pixels import too_large
from petabatch.sources.shared import shared

if TYPE_CHECKING:
    from av import VideoFrame

_LEAST = 64
"""Decoders that may wait in any case."""
_MOST_BYTES = 2 << 30
"""Memory for those beyond, of all that wait."""
_FRAMES = 16
"""Frames that a decoder may keep to decode others from, of 1.5 bytes a pixel, as H.264 allows."""
_CONTEXT = 1 << 20
"""Bytes of a decoder in addition."""


class Film:
    """A video file: the times of its frames, and how they are turned to be seen upright."""

    def __init__(self, path: str) -> None:
        """Read the times of all frames; raises InputError if the file is not a complete video."""
        self.path = path
        try:
            with _av().open(regular(path)) as container:
                stream = container.streams.video[0]
                packets = [
                    (p.pts, p.is_keyframe) for p in container.demux(stream) if p.size and not p.is_discard
                ]
                # AVI has the times of decoding, in which frames that refer to later ones do not come in turn
                reordered = container.format.name == "avi" and stream.codec_context.has_b_frames
                self.timed = not reordered and all(time is not None for time, _ in packets)
                """Whether a frame is known by its time; else by its number, from the beginning."""
                self.turns, count = _seen(path, all_frames=not self.timed)
                rows, columns = stream.height, stream.width
                self.rows, self.columns = (columns, rows) if self.turns % 2 else (rows, columns)
                timed = sorted(dict(packets).items()) if self.timed else [(n, n == 0) for n in range(count)]
        except errors() as error:
            raise unreadable(path, error, "a complete video file") from error
        if not timed or not self.rows * self.columns:
            raise InputError(f"{path}: there are no frames in this video\n    expected: at least one")
        if (problem := too_large(path, self.rows, self.columns)) is not None:
            raise problem
        self.shape = self.rows, self.columns, 3
        self.decoder_bytes = _CONTEXT + _FRAMES * self.rows * self.columns * 3 // 2
        """Memory of a decoder, at most."""
        self.times = [time for time, _ in timed]
        self.length = len(self.times)
        self._keys = sorted({0, *(number for number, (_, key) in enumerate(timed) if key)})

    def key(self, number: int) -> int:
        """Return the last key frame up to frame `number`, from which it can be decoded."""
        return self._keys[max(0, bisect_right(self._keys, number) - 1)]


def _seen(path: str, all_frames: bool) -> tuple[int, int]:
    """Return the quarter turns, counterclockwise, by which frames are upright, and how many were decoded.

    These are all frames of the film, to count them, or the first alone. A film of which none can be decoded
    is not turned.
    """
    with _av().open(path) as container, suppress(*(() if all_frames else errors())):
        frames = container.decode(container.streams.video[0])
        if (first := next(frames, None)) is not None:
            turns = round(getattr(first, "rotation", 0) / 90) % 4
            return turns, 1 + (sum(1 for _ in frames) if all_frames else 0)
    return 0, 0


class Decoders:
    """Decoders that wait where they are in films in use; `frame` is thread-safe.

    As many wait as there are places at which readers go on, if there is memory and may be open files for so
    many, and `least` in any case.
    """

    def __init__(self, least: int = _LEAST, most_bytes: int = _MOST_BYTES) -> None:
        self._least, self._most_bytes = least, most_bytes
        self._lock, self._turns = threading.Lock(), count()
        self._idle: WeakKeyDictionary[Film, list[_Decoder]] = WeakKeyDictionary()
        self._places: WeakKeyDictionary[object, tuple[int, int]] = WeakKeyDictionary()
        """Of each reader, the places at which it goes on, and the bytes of its largest decoder."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._idle.values()))

    def expect(self, reader: object, places: int, films: Sequence[Film]) -> None:
        """Let as many more decoders wait as there are places in films at which a reader goes on."""
        biggest = max((film.decoder_bytes for film in films), default=1)
        with self._lock:
            self._places[reader] = places, biggest

    @property
    def note(self) -> str:
        """What it costs if there is no room for the places of all readers, else ""."""
        with self._lock:
            expected = list(self._places.values())
        places, biggest = sum(places for places, _ in expected), max((b for _, b in expected), default=1)
        room = max(self._least, min(_open_files(), self._most_bytes // biggest))
        if places <= room:
            return ""
        return (
            f"slices follow films at {places:,} places, and a process keeps {room:,} decoders: the others "
            f"are opened again for each frame, which is decoded from the key frame before; use more ranks, "
            f"smaller films, or a higher limit of open files (ulimit -n)"
        )

    def frame(self, film: Film, number: int) -> np.ndarray:
        """Return a frame, uint8 `[rows, columns, 3]`; raises InputError if it cannot be decoded."""
        try:
            decoder = self._take(film, number)  # dropped, and closed, if it fails
            pixels = decoder.read(film, number)
        except errors() as error:
            raise unreadable(film.path, error, f"a video whose frame {number} can be decoded") from error
        self._keep(film, decoder)
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
            own = self._idle.get(film, [])
            key = film.key(number)
            behind = [one for one in own if one.next <= number and film.key(key - 1) <= one.next]
            ended = [one for one in own if one.next >= len(film.times)]  # of no other use
            chosen = max(behind or ended, key=lambda one: one.next, default=None)
            if chosen is not None:
                own.remove(chosen)
                return chosen
        return _Decoder(film)

    def _keep(self, film: Film, decoder: _Decoder) -> None:
        """Let a decoder wait; close those that have waited longest if there is no room for all."""
        with self._lock:
            decoder.turn = next(self._turns)
            self._idle.setdefault(film, []).append(decoder)
            closed = []
            while self._crowded():
                oldest = min((own for own in self._idle.values() if own), key=lambda own: own[0].turn)
                closed.append(oldest.pop(0))
        for one in closed:
            one.close()

    def _crowded(self) -> bool:
        waiting = self.waiting
        if waiting <= self._least:
            return False
        nbytes = sum(film.decoder_bytes * len(own) for film, own in self._idle.items())
        places = sum(places for places, _ in self._places.values())
        return waiting > min(places, _open_files()) or nbytes > self._most_bytes


def _open_files() -> int:
    """Return how many files may be open in decoders: half of what the system allows a process."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return 256
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if most == resource.RLIM_INFINITY else most // 2


class _Decoder:
    """An open video file, decoded from frame to frame by one thread at a time.

    It does not hold on to its film: decoders are closed with the last use of it.
    """

    _frames: Iterator[tuple[int | None, VideoFrame]]
    """Frames to come, each with its time in the film."""
    turn: int
    """When it was used last."""

    def __init__(self, film: Film) -> None:
        self._begin(film)

    def reaches(self, film: Film, number: int) -> bool:
        """Return whether frame `number` is ahead, with no key frame between that is nearer."""
        return film.key(number) <= self.next <= number

    def read(self, film: Film, number: int) -> np.ndarray:
        """Return a frame; raises ValueError, or what PyAV raises, if it cannot be decoded."""
        if self.reaches(film, number) and (pixels := self._forward(film, number)) is not None:
            return pixels
        # the key frame, not the frame: the key frame after it may come before it in the file
        key = film.key(number)
        for start in (key, film.key(key - 1)) if film.timed else ():
            self._container.seek(film.times[start], stream=self._stream)
            self._frames = ((frame.pts, frame) for frame in self._container.decode(self._stream))
            if (pixels := self._forward(film, number)) is not None:
                return pixels
        self.close()  # some formats only find places near the one that is sought
        self._begin(film)
        if (pixels := self._forward(film, number)) is not None:
            return pixels
        raise ValueError("it is missing")

    def _begin(self, film: Film) -> None:
        self._container = _av().open(regular(film.path))
        self._stream = self._container.streams.video[0]
        self._stream.codec_context.thread_count = 1  # films are decoded side by side instead
        frames = self._container.decode(self._stream)
        self._frames = ((frame.pts, frame) for frame in frames) if film.timed else enumerate(frames)
        self.next = 0
        """The frame that it comes to next."""

    def _forward(self, film: Film, number: int) -> np.ndarray | None:
        """Return a frame that is ahead, None if it is not.

        Taking the next one instead would make the pixels depend on where decoding began.
        """
        for time, frame in self._frames:
            if time is not None and time >= film.times[number]:
                if time > film.times[number]:
                    break
                self.next = number + 1
                pixels: np.ndarray = frame.to_ndarray(format="rgb24")
                return np.rot90(pixels, film.turns)
        return None

    def close(self) -> None:
        self._container.close()


open_film = shared(Film)
DECODERS = Decoders()
"""Those of this process."""


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise ResourceError(f"reading videos requires PyAV\n    hint:     {install('video')}") from error
    return av


def errors() -> tuple[type[Exception], ...]:
    """Return what PyAV raises for damaged files, and for files without pictures."""
    return (_av().FFmpegError, OSError, ValueError, IndexError, AttributeError, TypeError)
