"""What the activity of a layer is like, in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from petabatch.probes.cost import sums
from petabatch.spec.model import NonNegative
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array


class Statistics(Probe):
    """Total, smallest, largest, mean, deviation and number of active units (StatsProbe of the original)."""

    type: Literal["statistics"] = "statistics"
    layer: str
    """Layer that is measured."""
    above: NonNegative = 0.0
    """A unit is active when its absolute activity is larger than this (nnzThreshold)."""

    def layers(self) -> Sequence[str]:
        """Name the layer."""
        return (self.layer,)

    def quantities(self) -> Mapping[str, str]:
        """Name the numbers."""
        return {
            "total": "sum of the activity",
            "minimum": "smallest activity",
            "maximum": "largest activity",
            "mean": "mean activity",
            "deviation": "population standard deviation of the activity",
            "active": "number of active units",
        }

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return them, each `[lanes]`."""
        flat = read(self.layer, "A").reshape(len(read(self.layer, "A")), -1)
        total = sums(flat)
        mean = total / flat.shape[1]
        # Two passes: the mean of squares less the square of the mean loses small deviations.
        variance = sums(xp.square(flat - mean[:, None])) / flat.shape[1]
        return {
            "total": total,
            "minimum": flat.min(axis=1).astype(float),
            "maximum": flat.max(axis=1).astype(float),
            "mean": mean,
            "deviation": xp.sqrt(variance),
            "active": sums(xp.abs(flat) > self.above),
        }
