"""Differences of numbers that rounding alone makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.variable import Array

_ULPS = 64
"""Units in the last place by which numbers that are meant to be equal may differ."""


def relative(kind: Any) -> float:
    """Return the relative difference that rounding alone makes, given the type of the numbers."""
    return _ULPS * float(np.finfo(kind).eps)


def is_flat(least: Array, most: Array, xp: Any = np) -> Array:
    """Return where numbers from `least` to `most` are the same but for rounding; none is infinite or NaN."""
    largest = xp.maximum(abs(least), abs(most))
    flat: Array = (most - least <= relative(most.dtype) * largest) & xp.isfinite(largest)
    return flat
