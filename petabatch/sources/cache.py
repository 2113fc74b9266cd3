"""A cache of decoded images, of bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

K = TypeVar("K", bound=Hashable)

CACHE_BYTES = 256 << 20
"""Bytes of the decoded images of one source that are kept."""


class ImageCache(Generic[K]):
    """What a function returns for each key, least recently used first to go; thread-safe.

    The image used last is kept in any case.
    """

    def __init__(self, function: Callable[[K], np.ndarray], most_bytes: int = CACHE_BYTES) -> None:
        self._function, self._most_bytes = function, most_bytes
        self._kept: OrderedDict[K, np.ndarray] = OrderedDict()
        self._nbytes, self._lock = 0, threading.Lock()

    def __call__(self, key: K) -> np.ndarray:
        """Return the image, which is not to be changed."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = self._function(key)  # without the lock: images are decoded side by side
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._nbytes += made.nbytes
            while self._nbytes > self._most_bytes and len(self._kept) > 1:
                self._nbytes -= self._kept.popitem(last=False)[1].nbytes
        return made
