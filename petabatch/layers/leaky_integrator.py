"""Leaky integrator of the input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import LAYER_DIMS, Array, Variable


class LeakyIntegrator(Layer):
    """V+ = exp(-dt / tau) V + input, A = V; for a constant input g, A converges to about g tau / dt.

    Source: PetaVision's `LeakyIntegratorBuffer.cpp:47-57`.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["leaky_integrator"] = "leaky_integrator"
    tau: Positive = 100.0
    """Time constant of the decay, in the unit of `run.dt` (integrationTime)."""

    def decay(self, dt: float, precision: np.dtype) -> tuple[float, float]:
        """Return (e, 1): V = e V + input."""
        return precision.type(math.exp(-dt / self.tau)), precision.type(1)

    def leaks(self, dt: float) -> Mapping[str, float]:
        """Return e."""
        return {"V": math.exp(-dt / self.tau)}

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        return CompiledRule("leaky_integrator", memory=True, decay=self.decay, variables=("V",))

    def variables(self) -> Sequence[Variable]:
        """Declare the potential, which is the activity as long as it is not reset."""
        return (Variable("V", self.shape, LAYER_DIMS, "membrane potential"),)

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Set the activity to the initial potential."""
        activity[...] = state["V"]

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Decay and add the input."""
        potential = state["V"]
        potential *= potential.dtype.type(math.exp(-ctx.dt / self.tau))
        potential += drive[0]
        activity[...] = potential
