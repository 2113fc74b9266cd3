"""Given weights brought to the shape of a connection."""

from __future__ import annotations

import numpy as np

from petabatch.errors import InputError


def fit(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return float64 weights of `shape`; leading axes of length 1 may be missing, or be too many.

    Raises InputError when the shapes differ otherwise, or a weight is not finite.
    """
    if values.dtype.kind not in "fiub" or _plain(values.shape) != _plain(shape):
        raise InputError(
            f"{name}: these weights do not fit the connection\n"
            f"    found:    {values.dtype} {list(values.shape)}\n"
            f"    expected: {list(shape)}: kernel rows and columns, pre features, patch rows and columns, "
            f"post features; leading axes of length 1 may be left out"
        )
    weights = np.asarray(values, float).reshape(shape)
    if not np.isfinite(weights).all():
        raise InputError(f"{name}: there are weights that are not finite\n    found:    NaN or infinity")
    return weights


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its leading axes of length 1."""
    ones = next((axis for axis, length in enumerate(shape) if length != 1), len(shape))
    return shape[ones:]
