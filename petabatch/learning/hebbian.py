"""Hebbian learning against an error layer: the gradient of the squared error, as in sparse coding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from petabatch.learning.averaging import Averaging
from petabatch.spec.model import Flag, Fraction, NonNegative, Positive
from petabatch.variable import Array, Variable


class Hebbian(Averaging):
    """dW = rate * average(pre * post), then momentum and decay; W += dW.

    With `error` = the error layer this is gradient descent on 0.5 |error|^2
    (`HebbianUpdater.cpp:564-844`, `MomentumUpdater.cpp:292-349` of the original).
    """

    type: Literal["hebbian"] = "hebbian"
    momentum: Fraction = 0.0
    """f in dW = (1 - f) dW + f dW_before."""
    decay: NonNegative = 0.0
    """g in dW = dW - g W."""
    decay_follows_rate: Flag = False
    """g is multiplied by the learning rate of the update (momentumMethod alex of the original)."""
    delayed: Flag = False
    """Apply the change one update late (immediateWeightUpdate = false of the original)."""
    clip: Positive | None = None
    """Largest change of one weight in one update."""

    @property
    def featurewise(self) -> bool:
        """Each feature learns from its own products."""
        return True

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare the change of the update before, if there is momentum, and the change that waits."""
        momentum = replace(weights, name="momentum", description="change of the update before")
        waiting = replace(weights, name="waiting", description="change to be applied at the next update")
        return (*([momentum] if self.momentum else []), *([waiting] if self.delayed else []))

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
        step = self.rate_at(update) * self.averaged(product, counts, slices, xp)
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
