"""PetaVision's ISTA: subgradient descent on the membrane potential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from petabatch.layers.lca import LCA
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.parts import Stability, StepContext
from petabatch.variable import Array


class ISTA(LCA):
    """V+ = V + dt / tau (drive - threshold sign(A)), A = T(V).

    Potentials oscillate around the threshold because of the sign function; the proximal method `fista`
    converges. Source: PetaVision's `ISTAInternalStateBuffer.kpp:53-59`.
    """

    capabilities = Capabilities(graph_safe=True, local=True, splittable=True)
    type: Literal["ista"] = "ista"  # type: ignore[assignment]
    self_interact: Literal[True] = True
    """Always true: the rule has no leak to compensate."""

    def stability(self, dt: float, curvature: float) -> Stability | None:
        """Return the LCA's."""
        return LCA.stability(self, dt, curvature)

    @property
    def silent(self) -> bool:
        """From an initial potential of 0, if its activity there is."""
        return self.initial == 0 and self.quiet_at(0)

    def leaks(self, dt: float) -> Mapping[str, float]:
        """There is no leak."""
        return {}

    def compiled_rule(self) -> CompiledRule:
        """Return V = V + gain (drive - threshold sign(A))."""
        return self.rule("gradient", -self.threshold)

    def decay(self, dt: float, precision: np.dtype) -> tuple[float, float]:
        """Return (1, dt / tau): there is no leak."""
        return precision.type(1), precision.type(dt / self.tau)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Step along the gradient and apply the transfer function."""
        potential = state["V"]
        _, step = self.decays(ctx.dt, state, ctx.xp)
        potential += step * (drive[0] - self.threshold * ctx.xp.sign(previous))
        self.curve.on(potential, activity, ctx.xp)
