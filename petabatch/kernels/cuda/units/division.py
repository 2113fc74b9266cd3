"""The remainder of a division, and its quotient, as Python and compiled row functions have them."""

from __future__ import annotations

import math

import numpy as np


def remainder(a: float, b: float) -> float:
    """Return a % b, exactly but for the last sum."""
    rest = math.fmod(a, b)
    return rest + b if (rest < 0) & (b > 0) | (rest > 0) & (b < 0) else math.copysign(rest, b)


def quotient(a: float, b: float) -> float:
    """Return a // b; of a / b, which is rounded, the whole part may be one more."""
    if b == 0:
        return a / b
    rest = math.fmod(a, b)
    whole = (a - rest) / b
    if (rest < 0) & (b > 0) | (rest > 0) & (b < 0):
        whole -= 1.0
    below: float = np.floor(whole)
    return below + 1.0 if whole - below > 0.5 else below
