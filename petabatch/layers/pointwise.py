"""Layers that combine their inputs unit by unit: product, quotient, square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Product(Layer):
    """A = excitatory times inhibitory input (`PtwiseProductGSynAccumulator`)."""

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (1, 1.0)}
    graph_safe: ClassVar[bool] = True
    type: Literal["product"] = "product"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Multiply the two inputs."""
        ctx.xp.multiply(drive[0], drive[1], out=activity)


class Quotient(Layer):
    """A = excitatory over inhibitory input (`PtwiseQuotientGSynAccumulator`).

    A divisor of 0 gives an infinity or a NaN, which ends the run with a message.
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (1, 1.0)}
    graph_safe: ClassVar[bool] = True
    type: Literal["quotient"] = "quotient"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Divide the two inputs."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ctx.xp.divide(drive[0], drive[1], out=activity)


class Squared(Layer):
    """A = input squared (`SquaredGSynAccumulator`)."""

    graph_safe: ClassVar[bool] = True
    type: Literal["squared"] = "squared"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Square the input."""
        ctx.xp.multiply(drive[0], drive[0], out=activity)
