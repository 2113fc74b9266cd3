"""Prefetch of images on the CPU: read on threads while steps are made."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np

_MOST_AHEAD = 4
"""Displays of a slice that are read ahead."""
_MOST_BYTES = 64 << 20
"""Memory for images read ahead, of one layer; at least one display of each slice is."""
_THREADS = 4


class FileReader(Protocol):
    """Reads the images of an input layer; see `petabatch.engine.images.ImageReader`."""

    def __call__(self, number: int, item: int) -> np.ndarray:
        """Return image `item` of a global slice."""

    @property
    def from_files(self) -> bool:
        """Whether images are read from files, which may take time."""

    @property
    def nbytes(self) -> int:
        """Bytes of an image."""

    @property
    def last_item(self) -> int:
        """The item that is shown at the end of the run."""


class Prefetch:
    """The images of all input layers whose sources read files; other sources are read when they are shown.

    A lane makes many displays of one slice before it turns to the next, so images are read ahead slice by
    slice. An error in a file is raised when its image is shown, not before.
    """

    def __init__(self, readers: Mapping[str, FileReader], slices: int) -> None:
        self._readers = readers
        self._ahead: dict[tuple[str, int], deque[tuple[int, Future[np.ndarray]]]] = {}
        self._depth = {
            name: min(_MOST_AHEAD, max(1, _MOST_BYTES // max(1, slices * reader.nbytes)))
            for name, reader in readers.items()
            if reader.from_files
        }
        self._pool = ThreadPoolExecutor(_THREADS, "feed")
        self._waited: dict[int, float] = {}

    @property
    def waited(self) -> float:
        """Seconds in which lanes waited for images, summed over lanes."""
        return sum(self._waited.values())

    def read(self, name: str, slice_: int, item: int) -> np.ndarray:
        """Return an image, and start reading those that follow; one thread at a time for each slice."""
        reader, begin = self._readers[name], time.perf_counter()
        if name not in self._depth:
            image = reader(slice_, item)
        else:
            queue = self._ahead.setdefault((name, slice_), deque())
            while queue and queue[0][0] != item:
                queue.popleft()[1].cancel()
            found = queue.popleft()[1] if queue else self._pool.submit(reader, slice_, item)
            first = queue[-1][0] + 1 if queue else item + 1
            for following in range(first, min(item + self._depth[name], reader.last_item) + 1):
                queue.append((following, self._pool.submit(reader, slice_, following)))
            image = found.result()
        self._waited[slice_] = self._waited.get(slice_, 0.0) + time.perf_counter() - begin
        return image

    def close(self) -> None:
        """Stop reading; it begins again with the next image."""
        self._pool.shutdown(cancel_futures=True)
        self._pool = ThreadPoolExecutor(_THREADS, "feed")
        self._ahead.clear()
