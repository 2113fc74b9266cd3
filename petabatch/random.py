"""Independent random streams keyed by what they are for, never by rank or thread."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Return the generator of (seed, purpose, indices), as `stream(1, "crop", slice, item)`.

    The same key gives the same numbers on every machine; different keys give independent ones
    (Salmon et al. 2011: Philox, keyed through numpy's SeedSequence). Seeds up to 2**128, indices up to 2**32.
    """
    # As a spawn key, because plain entropy is padded with zeros: there (1, p) and (1, p, 0) would be one key.
    key = (zlib.crc32(purpose.encode()), *indices)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))
