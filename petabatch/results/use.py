"""Use of features: how often the units of a code are active."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petabatch.clock import Clock
from petabatch.results.series import Series

RECENT = 10
"""Displays, or recorded updates, in which a feature that is not dead was active."""
LIMIT = 1 << 28
"""Bytes of codes that are read for statistics, before compression: a figure must not take long."""


def latest_codes(
    code: Series, last: int | None = None, among: np.ndarray | None = None, limit: int = LIMIT
) -> Iterator[tuple[int, int]]:
    """Yield (time, slice) of recorded codes, from the last time on, as many as are within `limit` bytes.

    Of each display only the last record counts, since it is the same image; of the steps `among`,
    if they are given.
    """
    steps = code.steps
    times = np.arange(len(steps)) if among is None else np.flatnonzero(np.isin(steps, among))
    shown = Clock(code.display).item(steps[times]) if code.display else times
    ends = np.append(shown[1:] != shown[:-1], True) if len(times) else np.zeros(0, bool)
    size = int(np.prod(code.shape[2:])) * code.dtype.itemsize
    latest = times[ends][::-1][:last]
    pairs = ((int(time), slice_) for time in latest for slice_ in range(code.shape[1]))
    yield from (pair for _, pair in zip(range(max(1, limit // size)), pairs, strict=False))


def use_of(code: Series, last: int | None = RECENT) -> np.ndarray:
    """Return the fraction of active units of each feature over the last coded displays, `[feature]`.

    Codes of slices that failed, which are NaN, are left out.
    """
    active, units = np.zeros(code.shape[-1]), 0
    for time, slice_ in latest_codes(code, last):
        values = code[time, slice_]
        if np.isnan(values).any():
            continue
        active += np.count_nonzero(values, axis=(0, 1))
        units += values.shape[0] * values.shape[1]
    return active / max(1, units)


def active_features(code: Series) -> tuple[np.ndarray, int]:
    """Return whether each feature has a use, `[feature]`, and how many of the latest codes tell it.

    Those without one are dead. Reading ends when all features were active.
    """
    active, codes = np.zeros(code.shape[-1], bool), 0
    for time, slice_ in latest_codes(code, RECENT):
        values = code[time, slice_]
        if np.isnan(values).any():
            continue
        active |= values.any(axis=(0, 1))
        codes += 1
        if active.all():
            break
    return active, codes
