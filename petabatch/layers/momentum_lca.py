"""The original's momentum LCA, for parity; `heavy_ball` is the one that reaches the LCA's rest state."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import model_validator

from petabatch.layers.lca import LCA
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite
from petabatch.spec.parts import StepContext
from petabatch.variable import Array, Variable


class MomentumLCA(LCA):
    """V = e V + D + rate D_before with D = (1 - e)(drive + A) (`MomentumLCAInternalStateBuffer.kpp:53-65`).

    Warning: at rest V = (1 + rate)(drive + A), which is not the LCA's rest state and solves no LASSO with the
    given threshold. With self-interaction and a soft threshold, activity even grows without bound along
    directions of the active features whose eigenvalue of dictionary^T dictionary is below rate / (1 + rate).
    It warns when it is built.
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["momentum_lca"] = "momentum_lca"  # type: ignore[assignment]
    rate: Finite = 0.0
    """Part of the last step's pull that is added again (LCAMomentumRate)."""

    @model_validator(mode="after")
    def _warn(self) -> MomentumLCA:
        if self.rate:
            warnings.warn(
                "a momentum_lca layer rests at (1 + rate)(drive + A), not where the LCA does; "
                "use heavy_ball for speed with the LCA's rest state",
                stacklevel=2,
            )
        return self

    def compiled_rule(self) -> CompiledRule:
        """Return the LCA's with the pull of two steps."""
        return self.rule("momentum", float(self.self_interact), self.rate, "pull")

    def variables(self) -> Sequence[Variable]:
        """Declare the pull of the step before beside the LCA's own state."""
        dims = ("y", "x", "feature")
        return (*super().variables(), Variable("pull", self.shape, dims, "D of the step before"))

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Integrate the potential with the pull of two steps and apply the transfer function."""
        potential, before = state["V"], state["pull"]
        e, rest = self.decays(ctx.dt, state, ctx.xp)
        pull = rest * (drive[0] + previous if self.self_interact else drive[0])
        potential *= e
        potential += pull
        potential += self.rate * before
        before[...] = pull
        self.curve(potential, activity, ctx.xp)
