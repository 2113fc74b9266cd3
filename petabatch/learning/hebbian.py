"""Hebbian learning; with an error layer, gradient descent on the squared error, as in sparse coding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.learning.averaging import Averaging
from petabatch.spec.model import Count, Flag, Fraction, NonNegative, OneOf, Positive
from petabatch.spec.weights import Initial
from petabatch.variable import Array, Variable


class Hebbian(Averaging):
    """dW = rate * average(pre * post), plus momentum and weight decay; W += dW.

    With `error` set to the layer of the residual, this is gradient descent on 0.5 |error|^2. Source:
    PetaVision's `HebbianUpdater.cpp:564-844` and `MomentumUpdater.cpp:292-349`.
    """

    type: Literal["hebbian"] = "hebbian"
    momentum: Fraction = 0.0
    """Momentum coefficient f in dW = (1 - f) dW + f dW_before."""
    previous: Annotated[Initial, OneOf(Initial)] | None = None
    """Initialiser of dW_before at the start, as from a file of PetaVision; by default 0."""
    decay: NonNegative = 0.0
    """Weight decay g in dW = dW - g W."""
    decay_follows_rate: Flag = False
    """Multiply g by the learning rate of the update (PetaVision's momentumMethod alex)."""
    delayed: Flag = False
    """Apply rate * average(pre * post) of each update one update late (PetaVision's immediateWeightUpdate =
    false). Momentum and `decay` act at once, also in the first update, which has no product yet."""
    accumulate: Count = 1
    """Updates whose products are averaged into one change of the weights: each `accumulate`-th update changes
    them, those between at most normalise them again."""
    clip: Positive | None = None
    """Bound to which rate * average(pre * post) is clipped; by default none."""

    @model_validator(mode="after")
    def _previous_of_a_momentum(self) -> Hebbian:
        if self.previous is not None and not self.momentum:
            raise PydanticCustomError(
                "previous", "without momentum there is no previous change", {"expected": "`momentum`"}
            )
        return self

    @property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """`previous`."""
        return {} if self.previous is None else {"momentum": ("previous", self.previous)}

    @property
    def featurewise(self) -> bool:
        """Each feature learns from its own products."""
        return True

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare the previous change and the pending one, and the sums over several updates, if needed."""
        momentum = replace(weights, name="momentum", description="change of the previous update")
        waiting = replace(weights, name="waiting", description="change to be applied at the next update")
        summed = replace(weights, name="summed", description="sum of the products since the last change")
        visits = replace(
            weights,
            name="visits",
            shape=(*weights.shape[:-1], 1),
            description="number of active pre units in that sum",
        )
        return (
            *([momentum] if self.momentum else []),
            *([waiting] if self.delayed else []),
            *([summed] if self.accumulate > 1 else []),
            *([visits] if self.accumulate > 1 and self.counted else []),
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
        if self.accumulate > 1:
            state["summed"][...] += product
            if counts is not None:
                state["visits"][...] += counts
            if (update + 1) % self.accumulate:
                return
            product, counts = state["summed"].copy(), None if counts is None else state["visits"].copy()
            for name in ("summed", *(["visits"] if self.counted else [])):
                state[name][...] = 0
            update, slices = update // self.accumulate, slices * self.accumulate
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
