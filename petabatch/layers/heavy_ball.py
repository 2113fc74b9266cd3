"""LCA with a heavy ball: inertia of the membrane potential, the same rest state, fewer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from petabatch.layers.lca import LCA
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.parts import StepContext
from petabatch.variable import Array, Variable


class HeavyBall(LCA):
    """V+ = V + k (drive + A - V) + beta (V - V before), k = 1 - exp(-dt / tau), A = T(V).

    Polyak's inertia (1964) on the LCA. At rest V = drive + A whatever beta is, so the code is the LCA's: with
    the soft threshold the LASSO's. Other momentum rules, as the original's, rest elsewhere. It is for whoever
    wants the optimum rather than the dynamics: potentials overshoot on their way. Stable for
    k < 2 (1 + beta) / L, L the largest eigenvalue of dictionary^T dictionary.
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["heavy_ball"] = "heavy_ball"  # type: ignore[assignment]
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Inertia: the fraction of the last change of the potential that is made again."""

    def compiled_rule(self) -> CompiledRule:
        """Return the LCA's with the inertia of the potential."""
        return self.rule("heavy_ball", float(self.self_interact), self.beta, "V_before")

    def variables(self) -> Sequence[Variable]:
        """Declare the potential of the step before beside the LCA's own state."""
        before = Variable(
            "V_before",
            self.shape,
            ("y", "x", "feature"),
            "membrane potential of the step before",
            initial=self.initial,
        )
        return (*super().variables(), before)

    def restart(self, state: Mapping[str, Array], potential: Array | None) -> None:
        """Start anew at rest."""
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
        """Integrate the potential with its inertia and apply the transfer function."""
        potential, before = state["V"], state["V_before"]
        e, rest = self.decays(ctx.dt, state, ctx.xp)
        pull = drive[0] + previous if self.self_interact else drive[0]
        following = e * potential + rest * pull + self.beta * (potential - before)
        before[...] = potential
        potential[...] = following
        self.curve(potential, activity, ctx.xp)
