"""Weight changes of many magnitudes and their exact sum."""

from __future__ import annotations

import numpy as np

from petabatch.parallel.comm import Serial
from petabatch.parallel.reduce import ExactSum


def changes(slices: int, seed: int, spread: float, dtype: str = "f4", features: int = 3) -> np.ndarray:
    """Return weight changes whose size varies by 2^spread among slices and features, some of them zero."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(slices, 1, 1, features, 2, 2, 1))
    values *= np.exp2(spread * rng.uniform(-1, 1, (slices, 1, 1, features, 1, 1, 1)))
    values *= rng.random((slices, 1, 1, features, 1, 1, 1)) < 0.8
    return values.astype(dtype)


def exact_sum(values: np.ndarray) -> np.ndarray:
    """Return the exact sum of one array on one rank."""
    return ExactSum({"connection d": values}, Serial(), len(values), 0).wait()["connection d"]
