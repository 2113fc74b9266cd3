"""Prefetch of images on the CPU: read on threads while steps are made."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Protocol

import numpy as np

from petabatch.threads import ThreadPool

_MOST_AHEAD = 4
"""Displays of a slice that are read ahead."""
_MOST_BYTES = 64 << 20
"""Memory for images read ahead, of one layer; at least one display of each slice is."""
THREADS = 4


def depth(slices: int, nbytes: int) -> int:
    """Return how many displays of a slice are read ahead, with images of `nbytes` bytes."""
    return min(_MOST_AHEAD, max(1, _MOST_BYTES // max(1, slices * nbytes)))


class FileReader(Protocol):
    """Reads the images of an input layer; see `petabatch.engine.images.ImageReader`."""

    def __call__(self, number: int, item: int) -> np.ndarray:
        """Return image `item` of a global slice."""

    @property
    def read_ahead(self) -> bool:
        """Whether images are read ahead, since that may take time."""

    @property
    def forward(self) -> bool:
        """Whether the images of a slice are read one after the other, as films are decoded."""

    @property
    def nbytes(self) -> int:
        """Bytes of an image."""

    @property
    def last_item(self) -> int:
        """The item that is shown at the end of the run."""


class Prefetch:
    """The images of all input layers whose sources take time; others are read when they are shown.

    A lane makes many displays of one slice before it turns to the next, so images are read ahead slice by
    slice. An error in a file is raised when its image is shown, not before.
    """

    def __init__(self, readers: Mapping[str, FileReader], slices: int) -> None:
        self._readers = readers
        self._ahead: dict[tuple[str, int], _Queue] = {}
        self._depth = {
            name: depth(slices, reader.nbytes) for name, reader in readers.items() if reader.read_ahead
        }
        self._pool = ThreadPool(THREADS, "feed")
        self._waited: dict[int, float] = {}

    @property
    def waited(self) -> float:
        """Seconds in which lanes waited for images, summed over lanes."""
        return sum(self._waited.values())

    def begin(self, slice_: int) -> None:
        """Start reading the first images of a slice."""
        for name, reader in self._readers.items():
            if name in self._depth and reader.read_ahead:
                self._queue(name, slice_).look(0, min(self._depth[name], reader.last_item))

    def read(self, name: str, slice_: int, item: int, again: bool = False) -> np.ndarray:
        """Return an image, and start reading those that follow; one thread at a time for each slice.

        It may be read `again` after this.
        """
        reader = self._readers[name]
        if name not in self._depth or not reader.read_ahead:
            return reader(slice_, item)
        key, queue = (name, slice_), self._queue(name, slice_)
        image = queue.look(item, min(item + self._depth[name], reader.last_item))
        begin = time.perf_counter()
        found = image.result()
        if not again:
            queue.leave(item)
            if item >= reader.last_item:
                self._ahead.pop(key, None)  # so that nothing grows with the number of slices
        thread = threading.get_ident()
        self._waited[thread] = self._waited.get(thread, 0.0) + time.perf_counter() - begin
        return found

    def _queue(self, name: str, slice_: int) -> _Queue:
        key = name, slice_
        if key not in self._ahead:
            self._ahead[key] = _Queue(self._pool, self._readers[name], slice_)
        return self._ahead[key]

    def close(self) -> None:
        """Stop reading; it begins again with the next image. Threads that wait for one get an error."""
        self._pool.shutdown(cancel_futures=True)
        self._pool = ThreadPool(THREADS, "feed")
        self._ahead.clear()


class _Queue:
    """The images of one slice that are read ahead."""

    def __init__(self, pool: ThreadPool, reader: FileReader, slice_: int) -> None:
        self._reader, self._slice = reader, slice_
        self._submit = _Forward(pool).submit if reader.forward else pool.submit
        self._ahead: deque[tuple[int, Future[np.ndarray]]] = deque()

    def look(self, item: int, last: int) -> Future[np.ndarray]:
        """Return an image, without those before it, and start reading those that follow up to `last`."""
        while self._ahead and self._ahead[0][0] != item:
            self._ahead.popleft()[1].cancel()
        first = self._ahead[-1][0] + 1 if self._ahead else item
        for number in range(first, max(item, last) + 1):
            self._ahead.append((number, self._submit(self._reader, self._slice, number)))
        return self._ahead[0][1]

    def leave(self, item: int) -> None:
        """Keep an image no longer."""
        if self._ahead and self._ahead[0][0] == item:
            self._ahead.popleft()


class _Forward:
    """Calls that are made one after the other, in order, on whichever thread of a pool is free.

    When the pool is shut down, calls that have not started end with an error.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self._pool, self._lock = pool, threading.Lock()
        self._waiting: deque[tuple[Future[np.ndarray], Callable[[], np.ndarray]]] = deque()
        self._busy = False

    def submit(self, call: Callable[[int, int], np.ndarray], slice_: int, item: int) -> Future[np.ndarray]:
        """Return the future result of a call, which begins when those before it have ended."""
        future: Future[np.ndarray] = Future()
        with self._lock:
            self._waiting.append((future, lambda: call(slice_, item)))
            begin, self._busy = not self._busy, True
        if begin:
            self._go_on()
        return future

    def _go_on(self) -> None:
        """Have the next call made by a thread of the pool."""
        try:
            self._pool.submit(self._next).add_done_callback(self._ended)
        except RuntimeError as error:  # the pool was shut down, or cannot start a thread
            self._fail(error)

    def _next(self) -> None:
        """Make one call, and let another thread go on: slices take turns."""
        with self._lock:
            future, call = self._waiting.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
        with self._lock:
            self._busy = more = bool(self._waiting)
        if more:
            self._go_on()

    def _ended(self, turn: Future[None]) -> None:
        if turn.cancelled():
            self._fail(CancelledError())

    def _fail(self, error: BaseException) -> None:
        """End all calls that have not started, so that no thread waits for one for ever."""
        with self._lock:
            waiting, self._busy = list(self._waiting), False
            self._waiting.clear()
        for future, _ in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
