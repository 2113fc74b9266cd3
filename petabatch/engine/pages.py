"""Memory in large pages: a thread that turns to another slice finds the addresses of its arrays sooner."""

from __future__ import annotations

import math
import threading

import numpy as np

_BLOCK = 4 << 20
"""Bytes from which on numpy asks the system for large pages, where it has them."""
_LEAST = 1 << 17
"""Bytes of an array that is worth it."""
_ALIGNED = 64
_APART = 5 * _ALIGNED
"""Bytes between arrays: those of the same place in a page compete for the same lines of the first cache."""


class Pages:
    """Blocks of memory that many arrays share; a block is freed with the last of them."""

    def __init__(self) -> None:
        self._block, self._lock = np.zeros(0, np.uint8), threading.Lock()

    def zeros(self, shape: tuple[int, ...], dtype: str | np.dtype[np.generic]) -> np.ndarray:
        """Return an array of zeros; raises MemoryError or ValueError as numpy does."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        if not _LEAST <= nbytes < _BLOCK:
            return np.zeros(shape, kind)
        with self._lock:
            if nbytes > self._block.size:
                block = np.zeros(_BLOCK + _ALIGNED, np.uint8)
                self._block = block[-block.ctypes.data % _ALIGNED :]
            found = self._block[:nbytes]
            self._block = self._block[-(-nbytes // _ALIGNED) * _ALIGNED + _APART :]
        return found.view(kind).reshape(shape)
