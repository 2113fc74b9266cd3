"""Base of learning rules driven by products of activities: averaging and learning rate."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.spec.model import Count, Finite, Fraction, Index, Model
from petabatch.spec.weights import Learning
from petabatch.variable import Array


class RateDecay(Model):
    """Decay of the learning rate: it is multiplied by 1 - `fraction` every `every` updates."""

    every: Count
    """Interval between two decays, in updates."""
    fraction: Fraction
    """Relative decrease of the rate."""
    phase: Index = 0
    """Updates by which the first decay is advanced."""


class Averaging(Learning):
    """The base of rules that change weights by an average of pre * post, or pre * error."""

    error: str | None = None
    """Layer whose activity is multiplied with that of the pre layer; it must have the shape of the post
    layer, which is the default."""
    rate: Finite = 1.0
    """Learning rate (PetaVision's dWMax)."""
    average: Literal["active", "slices", "sum"] = "active"
    """Normalisation of the product, which is summed over positions and slices. `active`: divide by the number
    of active pre units for each weight (PetaVision's default). `slices`: divide by the number of slices.
    `sum`: none."""
    rate_decay: RateDecay | None = None
    """Decay of the learning rate: `{ every = 100, fraction = 0.1 }` reduces it by 10 % every 100 updates."""

    @property
    def against(self) -> str | None:
        """The error layer."""
        return self.error

    @property
    def counted(self) -> bool:
        """Whether to count active units, to average over them."""
        return self.average == "active"

    def rate_at(self, update: int) -> float:
        """Return the learning rate at update number `update`, from 0."""
        if self.rate_decay is None:
            return self.rate
        return self.rate * (1 - self.rate_decay.fraction) ** (
            (update + self.rate_decay.phase) // self.rate_decay.every
        )

    def averaged(self, product: Array, counts: Array | None, slices: int, xp: Any) -> Array:
        """Return the average of pre * post (PetaVision's `HebbianUpdater.cpp:773-804`)."""
        if counts is not None:
            return xp.where(counts > 0, product / xp.maximum(counts, 1), 0)
        return product / slices if self.average == "slices" else product
