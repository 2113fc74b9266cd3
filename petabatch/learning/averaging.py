"""What learning rules by products of activities share: the average and the rate."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.spec.model import Count, Finite, Fraction, Index, Model
from petabatch.spec.weights import Learning
from petabatch.variable import Array


class RateDecay(Model):
    """The rate is multiplied by 1 - `fraction` each `every` updates."""

    every: Count
    fraction: Fraction
    phase: Index = 0
    """Updates by which the first decay comes earlier."""


class Averaging(Learning):
    """The base of rules that change weights by an average of pre times post, or pre times error."""

    error: str | None = None
    """Layer multiplied with the pre layer, shaped like the post layer; by default the post layer itself."""
    rate: Finite = 1.0
    """Learning rate (dWMax of the original)."""
    average: Literal["active", "slices", "sum"] = "active"
    """Divide the summed product by the number of active pre units behind each weight (the original's
    default), by the number of slices, or not at all."""
    rate_decay: RateDecay | None = None

    @property
    def against(self) -> str | None:
        """The error layer."""
        return self.error

    @property
    def counted(self) -> bool:
        """Counts are needed to average over active units."""
        return self.average == "active"

    def rate_at(self, update: int) -> float:
        """Return the learning rate at update number `update`, from 0."""
        if self.rate_decay is None:
            return self.rate
        return self.rate * (1 - self.rate_decay.fraction) ** (
            (update + self.rate_decay.phase) // self.rate_decay.every
        )

    def averaged(self, product: Array, counts: Array | None, slices: int, xp: Any) -> Array:
        """Return the average of pre times post (`HebbianUpdater.cpp:773-804` for active units)."""
        if counts is not None:
            return xp.where(counts > 0, product / xp.maximum(counts, 1), 0)
        return product / slices if self.average == "slices" else product
