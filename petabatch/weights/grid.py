"""Places in a patch, for weights that are a function of them."""

from __future__ import annotations

import numpy as np


def turned(rows: int, columns: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each place `[rows, columns]` is from the centre, along and across a direction.

    In units of the patch; the direction is `angle` radians from that of rising columns towards rising rows.
    """
    y = np.arange(rows)[:, None] - (rows - 1) / 2
    x = np.arange(columns)[None, :] - (columns - 1) / 2
    return x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
