"""PetaVision's momentum LCA, for parity; `heavy_ball` converges to the LCA's fixed point instead."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import model_validator

from petabatch.layers.lca import LCA
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite
from petabatch.spec.parts import StepContext
from petabatch.variable import LAYER_DIMS, Array, Variable


class MomentumLCA(LCA):
    """V+ = e V + D + rate D_before, D = (1 - e)(drive + A), A = T(V).

    Warning: the fixed point V = (1 + rate)(drive + A) is not that of the LCA and does not solve the LASSO
    with the given threshold. With self-interaction and a soft threshold, activity even grows without bound
    along directions of the active features whose eigenvalue of dictionary^T dictionary is below rate / (1 +
    rate). A warning is issued if `rate` is not 0. Source: PetaVision's
    `MomentumLCAInternalStateBuffer.kpp:53-65`.
    """

    capabilities = Capabilities(graph_safe=True, local=True, splittable=True)
    type: Literal["momentum_lca"] = "momentum_lca"  # type: ignore[assignment]
    rate: Finite = 0.0
    """Fraction of the previous D that is added again (LCAMomentumRate)."""

    @model_validator(mode="after")
    def _warn(self) -> MomentumLCA:
        if self.rate:
            warnings.warn(
                "a momentum_lca layer converges to V = (1 + rate)(drive + A), not to the LCA's fixed point; "
                "use heavy_ball for faster convergence to the same fixed point",
                stacklevel=2,
            )
        return self

    @property
    def silent(self) -> bool:
        """From an initial potential of 0, if its activity there is."""
        return self.initial == 0 and self.quiet_at(0)

    def compiled_rule(self) -> CompiledRule:
        """Return the LCA's with the pull of two steps."""
        return self.rule("momentum", float(self.self_interact), self.rate, "pull")

    def variables(self) -> Sequence[Variable]:
        """Declare the previous D, in addition to the state of the LCA."""
        return (*super().variables(), Variable("pull", self.shape, LAYER_DIMS, "D of the previous step"))

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Integrate the potential with the D of two steps and apply the transfer function."""
        potential, before = state["V"], state["pull"]
        e, rest = self.decays(ctx.dt, state, ctx.xp)
        pull = rest * (drive[0] + previous if self.self_interact else drive[0])
        potential *= e
        potential += pull
        potential += self.rate * before
        before[...] = pull
        self.curve.on(potential, activity, ctx.xp)
