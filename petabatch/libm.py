"""Elementary functions of arrays by the C library, number by number.

numpy's depend in their last bits on the vectors that a processor has. These are for what is made once or
seldom: initial weights, filters, synthetic images, probes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _each(function: Callable[..., float], arguments: int = 1) -> Callable[..., Any]:
    """Return a function applied to each number, in float64."""
    universal = np.frompyfunc(function, arguments, 1)

    def apply(*given: Any) -> Any:
        return np.asarray(universal(*given), float)[()]

    return apply


exp, log10, sin, cos = _each(math.exp), _each(math.log10), _each(math.sin), _each(math.cos)
power, arctan2 = _each(math.pow, 2), _each(math.atan2, 2)
