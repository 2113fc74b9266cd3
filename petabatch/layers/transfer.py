"""Transfer functions from membrane potential to activity: thresholds and polylines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from petabatch.variable import Array


@dataclass(frozen=True)
class Transfer:
    """Threshold function A(V), PetaVision's `components/ANNActivityBuffer.cpp:432-556`:

    - V < threshold: `minimum`
    - threshold <= V < threshold + width: linear from `minimum` to threshold + width - shift
    - else V - shift

    and at most `maximum`. `signed` makes it odd, A(-V) = -A(V), with `minimum` = 0; PetaVision has no such
    option.
    """

    threshold: float
    shift: float
    width: float = 0.0
    minimum: float = 0.0
    maximum: float = math.inf
    signed: bool = False

    def __call__(self, potential: Array, out: Array, xp: Any) -> None:
        """Write the activity of `potential` to `out`, an array of the same shape; they may be one array."""
        size = xp.abs(potential) if self.signed else potential
        above = xp.minimum(size - self.shift, self.maximum)
        activity = xp.where(size < self.threshold, self.minimum, above)
        if self.width > 0:
            top = self.threshold + self.width
            slope = (top - self.shift - self.minimum) / self.width
            line = xp.minimum(self.minimum + slope * (size - self.threshold), self.maximum)
            activity = xp.where((size >= self.threshold) & (size < top), line, activity)
        out[...] = xp.where(potential < 0, -activity, activity) if self.signed else activity


@dataclass(frozen=True)
class Polyline:
    """Piecewise linear A(V) through vertices (V, A); at a jump, the later vertex holds.

    Source: PetaVision's `ANNActivityBuffer.kpp:46-75`.
    """

    vertices: tuple[tuple[float, float], ...]
    slopes: tuple[float, float]
    """Slopes before the first vertex and after the last."""

    def __call__(self, potential: Array, out: Array, xp: Any) -> None:
        """Write the activity of `potential` to `out`, an array of the same shape; they may be one array."""
        v, a = self.vertices[0]
        activity = a + self.slopes[0] * (potential - v)
        for (v0, a0), (v1, a1) in pairwise(self.vertices):
            if v1 > v0:
                line = a0 + (a1 - a0) / (v1 - v0) * (potential - v0)
                activity = xp.where(potential >= v0, line, activity)
        v, a = self.vertices[-1]
        out[...] = xp.where(potential >= v, a + self.slopes[1] * (potential - v), activity)
