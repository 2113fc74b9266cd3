"""Use of features: how often the units of a code are active."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petabatch.series import Series

LIMIT = 1 << 28
"""Bytes of codes that are read for statistics, before compression: a figure must not take long."""


def latest_codes(code: Series, last: int | None = None, limit: int = LIMIT) -> Iterator[tuple[int, int]]:
    """Yield (time, slice) of recorded codes, from the last time on, as many as are within `limit` bytes."""
    size = int(np.prod(code.shape[2:])) * code.dtype.itemsize
    most = max(1, limit // size)
    times = range(len(code) - 1, max(-1, len(code) - 1 - (last or len(code))), -1)
    pairs = ((time, slice_) for time in times for slice_ in range(code.shape[1]))
    yield from (pair for _, pair in zip(range(most), pairs, strict=False))


def use_of(code: Series, last: int | None = 10) -> np.ndarray:
    """Return the fraction of active units of each feature over the last recorded codes, `[feature]`."""
    active, units = np.zeros(code.shape[-1]), 0
    for time, slice_ in latest_codes(code, last):
        values = code[time, slice_]
        active += np.count_nonzero(values, axis=(0, 1))
        units += values.shape[0] * values.shape[1]
    return active / max(1, units)
