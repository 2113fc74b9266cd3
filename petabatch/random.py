"""Independent random streams, keyed by purpose and indices, never by rank or thread."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return the generator of (seed, purpose, indices), as in `stream(1, "crop", slice, item)`.

    The same key gives the same numbers on every machine, different keys give independent numbers: the
    generator is Philox (Salmon et al. 2011), keyed through numpy's SeedSequence. Seeds must be below 2**128,
    indices below 2**32.
    """
    # A spawn key, since plain entropy is zero-padded: (1, p) and (1, p, 0) would be the same key.
    key = (zlib.crc32(purpose.encode()), *indices)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


class LazyStream:
    """The generator of (seed, purpose, indices), made at the first call.

    To make one takes longer than to show a small image, and most images draw no numbers.
    """

    def __init__(self, seed: int, purpose: str, *indices: int) -> None:
        self._seed, self._purpose, self._indices = seed, purpose, indices
        self._made: np.random.Generator | None = None

    def __call__(self) -> np.random.Generator:
        """Return the generator, always the same one."""
        if self._made is None:
            self._made = stream(self._seed, self._purpose, *self._indices)
        return self._made


def stream_pool(seed: int, purpose: str, index: int) -> np.ndarray:
    """Return what compiled code makes the streams of (seed, purpose, index, step) from, uint64 `[4]`.

    It is the entropy pool of numpy's SeedSequence before the last index is mixed into it.
    """
    key = (zlib.crc32(purpose.encode()), index)
    return np.random.SeedSequence(seed, spawn_key=key).pool.astype(np.uint64)
