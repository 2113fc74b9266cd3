"""Noise layers. Random numbers depend on seed, layer, slice and step, never on rank or thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from petabatch.random import stream
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, NonNegative
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class GaussianNoise(Layer):
    """A = input + mean + std * N(0, 1), independent for each unit and step."""

    local: ClassVar[bool] = True
    type: Literal["gaussian_noise"] = "gaussian_noise"
    mean: Finite = 0.0
    """Mean of the noise."""
    std: NonNegative = 1.0
    """Standard deviation of the noise."""

    def compiled_rule(self) -> CompiledRule:
        """Return the same, with the same random numbers."""
        return CompiledRule("gaussian_noise", {"mean": self.mean, "std": self.std})

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Add noise to the input."""
        noise = drawn(ctx, self.shape, np.random.Generator.standard_normal)
        activity[...] = drive[0] + self.mean + self.std * noise


class Dropout(Layer):
    """A = input, or 0 with the given probability, independent for each unit and step."""

    local: ClassVar[bool] = True
    type: Literal["dropout"] = "dropout"
    probability: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Probability with which a unit is set to 0. (PetaVision's parameter is in per cent.)"""

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same, with the same random numbers."""
        return CompiledRule("dropout", {"probability": self.probability})

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Set random units to 0."""
        chance = drawn(ctx, self.shape, np.random.Generator.random)
        activity[...] = drive[0] * (chance >= self.probability)


def drawn(
    ctx: StepContext,
    shape: tuple[int, int, int],
    draw: Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray],
) -> Array:
    """Return random numbers of each slice of the lane for this step, `[lanes, *shape]`.

    They are those that `draw(rng, shape)` makes for the whole layer.
    """
    streams = (stream(ctx.seed, f"layers/{ctx.layer}", number, ctx.step) for number in ctx.slices)
    return ctx.xp.asarray(np.stack([ctx.tile.rows(draw(rng, ctx.tile.whole(shape))) for rng in streams]))
