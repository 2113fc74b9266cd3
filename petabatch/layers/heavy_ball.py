"""Heavy-ball LCA: momentum on the membrane potential, the same fixed point in fewer steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from petabatch.layers.lca import LCA
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.parts import Penalty, Stability, StepContext
from petabatch.variable import LAYER_DIMS, Array, Variable


class HeavyBall(LCA):
    """V+ = V + k (drive + A - V) + beta (V - V_before), k = 1 - exp(-dt / tau), A = T(V).

    The LCA with heavy-ball momentum (Polyak 1964). The fixed point V = drive + A does not depend on beta, so
    the code converges to that of the LCA: with the soft threshold, the solution of the LASSO. This does not
    hold for other momentum rules such as PetaVision's (`momentum_lca`). It begins without momentum: V_before
    starts at V, unless `start` has values for it. Potentials may overshoot on their way, so use it for the
    optimum rather than for the dynamics. Stable for k < 2 (1 + beta) / L, with L the largest eigenvalue of
    dictionary^T dictionary.
    """

    capabilities = Capabilities(graph_safe=True, local=True, splittable=True)
    type: Literal["heavy_ball"] = "heavy_ball"  # type: ignore[assignment]
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum coefficient: the fraction of the previous change of the potential that is added again."""

    @property
    def penalty(self) -> Penalty | None:
        """That of its transfer function; None without self-interaction, which adds |A|^2 / 2 to it."""
        return self.minimised if self.self_interact else None

    def stability(self, dt: float, curvature: float) -> Stability | None:
        """Return the limit 2 (1 + beta) / L of the step size."""
        step = -math.expm1(-dt / self.tau)
        return Stability(step, 2 * (1 + self.beta) / curvature, 1 / (1 - self.beta))

    @property
    def silent(self) -> bool:
        """From an initial potential of 0, if its activity there is."""
        return self.initial == 0 and self.quiet_at(0)

    def compiled_rule(self) -> CompiledRule:
        """Return the LCA's with the inertia of the potential."""
        rule = self.rule("heavy_ball", float(self.self_interact), self.beta, "V_before")
        return replace(rule, rests=True)

    def variables(self) -> Sequence[Variable]:
        """Declare the previous potential, in addition to the state of the LCA."""
        before = Variable(
            "V_before",
            self.shape,
            LAYER_DIMS,
            "membrane potential of the previous step",
            initial=self.initial,
        )
        return (*super().variables(), before)

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Begin without momentum, unless the potential before starts at values of its own."""
        super().prepare(state, activity, dt)
        if "V_before" not in self.starts:
            state["V_before"][...] = state["V"]

    def settle(self, state: Mapping[str, Array], code: Array, drive: Array) -> None:
        """Set the potential at rest, without momentum."""
        super().settle(state, code, drive)
        state["V_before"][...] = state["V"]

    def restart(self, state: Mapping[str, Array], potential: Array | None) -> None:
        """Reset the state, with zero momentum."""
        super().restart(state, potential)
        state["V_before"][...] = state["V"]

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Integrate the potential with momentum and apply the transfer function."""
        potential, before = state["V"], state["V_before"]
        e, rest = self.decays(ctx.dt, state, ctx.xp)
        pull = drive[0] + previous if self.self_interact else drive[0]
        following = e * potential + rest * pull + self.beta * (potential - before)
        before[...] = potential
        potential[...] = following
        self.curve.on(potential, activity, ctx.xp)
