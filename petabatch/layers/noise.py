"""Layers with chance: their numbers depend on seed, layer, slice and step, never on rank or thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from petabatch.random import stream
from petabatch.spec.model import Finite, NonNegative
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class GaussianNoise(Layer):
    """A = input + mean + deviation * N(0, 1), drawn anew for each unit in each step."""

    type: Literal["gaussian_noise"] = "gaussian_noise"
    mean: Finite = 0.0
    deviation: NonNegative = 1.0

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Add noise to the input."""
        noise = drawn(ctx, lambda rng: rng.standard_normal(self.shape))
        activity[...] = drive[0] + self.mean + self.deviation * noise


class Dropout(Layer):
    """A = input, but 0 with the given probability, decided anew for each unit in each step."""

    type: Literal["dropout"] = "dropout"
    probability: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Chance of a unit to be silent. (In per cent in the original.)"""

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Silence units by chance."""
        activity[...] = drive[0] * (drawn(ctx, lambda rng: rng.random(self.shape)) >= self.probability)


def drawn(ctx: StepContext, draw: Callable[[np.random.Generator], np.ndarray]) -> Array:
    """Return what `draw` makes of the random numbers of each slice of the lane, stacked, for this step."""
    slices = [draw(stream(ctx.seed, f"layers/{ctx.layer}", number, ctx.step)) for number in ctx.slices]
    return ctx.xp.asarray(np.stack(slices))
