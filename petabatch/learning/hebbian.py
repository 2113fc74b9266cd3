"""Hebbian learning against an error layer: the gradient of the squared error, as in sparse coding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from petabatch.spec.model import Count, Finite, Fraction, Index, Model, NonNegative, Positive
from petabatch.spec.parts import Learning
from petabatch.variable import Array, Variable


class RateDecay(Model):
    """The rate is multiplied by 1 - `fraction` each `every` updates."""

    every: Count
    fraction: Fraction
    phase: Index = 0
    """Updates by which the first decay comes earlier."""


class Hebbian(Learning):
    """dW = rate * average(pre * post), then momentum and decay; W += dW.

    With `against` = the error layer this is gradient descent on 0.5 |error|^2
    (`HebbianUpdater.cpp:564-844`, `MomentumUpdater.cpp:292-349` of the original).
    """

    type: Literal["hebbian"] = "hebbian"
    error: str | None = None
    """Layer multiplied with the pre layer, shaped like the post layer; by default the post layer itself."""
    rate: Finite = 1.0
    """Learning rate (dWMax of the original)."""
    average: Literal["active", "slices", "sum"] = "active"
    """Divide the summed product by the number of active pre units behind each weight (the original's
    default), by the number of slices, or not at all."""
    momentum: Fraction = 0.0
    """f in dW = (1 - f) dW + f dW_before."""
    decay: NonNegative = 0.0
    """g in dW = dW - g W."""
    decay_follows_rate: bool = False
    """g is multiplied by the learning rate of the update (momentumMethod alex of the original)."""
    delayed: bool = False
    """Apply the change one update late (immediateWeightUpdate = false of the original)."""
    clip: Positive | None = None
    """Largest change of one weight in one update."""
    rate_decay: RateDecay | None = None

    @property
    def against(self) -> str | None:
        """The error layer."""
        return self.error

    @property
    def counted(self) -> bool:
        """Counts are needed to average over active units."""
        return self.average == "active"

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare the change of the update before, if there is momentum, and the change that waits."""
        momentum = replace(weights, name="momentum", description="change of the update before")
        waiting = replace(weights, name="waiting", description="change to be applied at the next update")
        return (*([momentum] if self.momentum else []), *([waiting] if self.delayed else []))

    def rate_at(self, update: int) -> float:
        """Return the learning rate at update number `update`, from 0."""
        if self.rate_decay is None:
            return self.rate
        return self.rate * (1 - self.rate_decay.fraction) ** (
            (update + self.rate_decay.phase) // self.rate_decay.every
        )

    def change(
        self,
        weights: Array,
        product: Array,
        counts: Array | None,
        state: Mapping[str, Array],
        update: int,
        slices: int,
        xp: Any,
    ) -> None:
        """Apply one update in place."""
        step = self.rate_at(update) * product
        if counts is not None:
            step = xp.where(counts > 0, step / xp.maximum(counts, 1), 0)
        elif self.average == "slices":
            step = step / slices
        if self.clip is not None:
            step = xp.clip(step, -self.clip, self.clip)
        if self.delayed:
            fresh, step = step, state["waiting"].copy()
            state["waiting"][...] = fresh
        if self.momentum:
            step = (1 - self.momentum) * step + self.momentum * state["momentum"]
        if self.decay:
            g = self.decay * self.rate_at(update) if self.decay_follows_rate else self.decay
            step = step - g * weights
        if self.momentum:
            state["momentum"][...] = step
        weights += step.astype(weights.dtype)
