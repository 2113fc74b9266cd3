"""The locally competitive algorithm (LCA)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from petabatch.layers.thresholded import Thresholded
from petabatch.layers.timescale import TimeScale
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, Flag, NonNegative, OneOf, Positive
from petabatch.spec.parts import Penalty, Stability, StepContext
from petabatch.variable import LAYER_DIMS, Array, Variable


class LCA(Thresholded):
    """Locally competitive algorithm: V+ = e V + (1 - e)(drive + A), e = exp(-dt / tau), A = T(V).

    With the soft threshold and drive = dictionary^T (image - dictionary A), the fixed point solves the LASSO
    0.5 |image - dictionary A|^2 + threshold |A|_1 (Rozell et al. 2008). The integration scheme is
    PetaVision's (`HyPerLCAInternalStateBuffer.kpp:48-60`).
    """

    capabilities = Capabilities(graph_safe=True, local=True, splittable=True)
    type: Literal["lca"] = "lca"
    tau: Positive = 100.0
    """Membrane time constant, in the unit of `run.dt`."""
    threshold: NonNegative = 0.5
    """Threshold lambda: units with a potential below it are inactive."""
    self_interact: Flag = True
    """Add each unit's own activity to its input, so that it does not inhibit itself."""
    initial: Finite = 0.0
    """Membrane potential at step 0."""
    time_scale: Annotated[TimeScale, OneOf(TimeScale)] | None = None
    """Adaptive time step: multiply `run.dt` by a time scale, in each slice, that follows the decay of its
    energy. A `reset` of the layer also resets its time scale, the ceiling of that, and the last energy."""

    @property
    def controller(self) -> TimeScale | None:
        """The controller of `time_scale`."""
        return self.time_scale

    @property
    def penalty(self) -> Penalty | None:
        """That of its transfer function; None without self-interaction, which adds |A|^2 / 2 to it."""
        return self.minimised if self.self_interact else None

    def stability(self, dt: float, curvature: float) -> Stability | None:
        """Return the limit 2 / L of the step size; L is larger by 1 without self-interaction."""
        step = -math.expm1(-dt / self.tau)
        return Stability(step, 2 / (curvature + (not self.self_interact)))

    @property
    def silent(self) -> bool:
        """From an initial potential of 0, if its activity there is."""
        return self.initial == 0 and self.quiet_at(0)

    def leaks(self, dt: float) -> Mapping[str, float]:
        """Return e."""
        return {"V": math.exp(-dt / self.tau)}

    def compiled_rule(self) -> CompiledRule:
        """Return V = e V + gain (drive + A)."""
        return self.rule("leaky", float(self.self_interact))

    def rule(
        self, name: str, self_interaction: float, inertia: float = 0.0, previous: str = ""
    ) -> CompiledRule:
        """Return a compiled rule with the decay, transfer function and time scale of this layer."""
        scale = self.time_scale
        return CompiledRule(
            name,
            memory=True,
            potential="V",
            decay=self.decay,
            curve=self.curve,
            self_interaction=self_interaction,
            inertia=inertia,
            previous=previous,
            tau=self.tau,
            scale=scale.numbers if scale is not None else None,
            energy=scale.energy if scale is not None else "",
        )

    def variables(self) -> Sequence[Variable]:
        """Declare the membrane potential, and the state of the time-scale controller."""
        potential = Variable("V", self.shape, LAYER_DIMS, "membrane potential", initial=self.initial)
        return (potential, *(self.time_scale.variables() if self.time_scale else ()))

    def decay(self, dt: float, precision: np.dtype) -> tuple[float, float]:
        """Return (e, 1 - e) in the given precision; in float32 both are rounded as in PetaVision."""
        e = precision.type(math.exp(-dt / self.tau))
        return e, precision.type(1) - e

    def decays(self, dt: float, state: Mapping[str, Array], xp: Any) -> tuple[Any, Any]:
        """Return (e, 1 - e) of each lane, `[lanes, 1, 1, 1]`, or two numbers if all lanes share them."""
        precision = state["V"].dtype
        if self.time_scale is None:
            return self.decay(dt, precision)
        both = [self.decay(dt * float(scale), precision) for scale in state["time_scale"]]
        return tuple(xp.asarray(column).reshape(-1, 1, 1, 1) for column in zip(*both, strict=True))

    def settle(self, state: Mapping[str, Array], code: Array, drive: Array) -> None:
        """Set the potential at rest, drive + A; the time scale, if it adapts, goes on."""
        state["V"][...] = drive + code if self.self_interact else drive

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Set the activity from the initial potential."""
        self.curve.on(state["V"], activity, np)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Integrate the potential and apply the transfer function."""
        potential = state["V"]
        e, rest = self.decays(ctx.dt, state, ctx.xp)
        pull = drive[0] + previous if self.self_interact else drive[0]
        potential *= e
        potential += rest * pull
        self.curve.on(potential, activity, ctx.xp)
