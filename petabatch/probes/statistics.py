"""Summary statistics of the activity of a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from petabatch.probes.cost import sums
from petabatch.spec.model import NonNegative
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array


class Statistics(Probe):
    """Sum, minimum, maximum, mean and standard deviation of the activity, and number of active units.

    Corresponds to PetaVision's StatsProbe.
    """

    type: Literal["statistics"] = "statistics"
    layer: str
    """Name of the layer to measure."""
    above: NonNegative = 0.0
    """Activity threshold: a unit is active if its absolute activity exceeds this (nnzThreshold)."""

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def layers(self) -> Sequence[str]:
        """Return the name of the layer."""
        return (self.layer,)

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the statistics."""
        return {
            "total": "sum of the activity",
            "minimum": "smallest activity",
            "maximum": "largest activity",
            "mean": "mean activity",
            "std": "population standard deviation of the activity",
            "active": "number of active units",
        }

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return them, each `[lanes]`."""
        flat = read(self.layer, "A").reshape(len(read(self.layer, "A")), -1)
        total = sums(flat)
        mean = total / flat.shape[1]
        # Two passes: the mean of squares minus the square of the mean suffers from cancellation.
        variance = sums(xp.square(flat - mean[:, None])) / flat.shape[1]
        return {
            "total": total,
            "minimum": flat.min(axis=1).astype(float),
            "maximum": flat.max(axis=1).astype(float),
            "mean": mean,
            "std": xp.sqrt(variance),
            "active": sums(xp.abs(flat) > self.above),
        }
