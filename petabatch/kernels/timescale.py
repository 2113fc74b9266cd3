"""The arithmetic of adaptive time scales: plain Python, which the CPU kernels compile."""

from __future__ import annotations

import math
from typing import NamedTuple

BASE, KNEE, LOG = range(3)


class Growth(NamedTuple):
    """The parameters of a controller; see `layers/timescale.py` for what they mean."""

    kind: int
    """How the ceiling grows: BASE, KNEE or LOG."""
    minimum: float
    maximum: float
    factor: float
    growth: float
    knee: float = 0.0
    slope: float = 0.0
    span: float = 1.0
    """For LOG: growth is `slope` times as large when the ceiling is this much above `maximum`."""


def follow(g: Growth, scale: float, ceiling: float, before: float, seen: float) -> tuple[float, float]:
    """Return (time scale, ceiling) of the coming step, where energy `seen` comes after `before`."""
    if seen == before:
        return scale, ceiling
    risen = before - seen <= 0 if g.kind == LOG else before - seen < 0
    if risen or before <= 0 or seen <= 0:
        return g.minimum, g.maximum
    scale = g.factor * before * scale / (before - seen)
    if scale < ceiling or math.isnan(scale):
        return scale, ceiling
    if g.kind == LOG:
        growth = g.growth * math.pow(g.slope, (ceiling - g.maximum) / g.span)
        return ceiling, ceiling * (1 + growth)
    larger = ceiling * (1 + g.growth)
    if g.kind == KNEE and larger > g.knee:
        larger = ceiling + (larger - ceiling) * g.slope
    return min(ceiling, larger), larger
