"""Spikes, or rates, that follow the input, in bursts: PetaVision's Retina."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from petabatch.kernels.rows import Draw
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, Flag, NonNegative
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import drawn_together, row_function
from petabatch.variable import LAYER_DIMS, Array, Variable


class Retina(Layer):
    """Spikes with a probability that follows the input, or that probability itself.

    In a step of dt (in ms) that ends at the time t, an input x gives

        p = min(1, background dt / 1000) + b(t) min(1, rate dt / 1000) x

    where b(t) is 1 during a burst, between `begin` and `end`, and 0 elsewhere. Without `spikes`, A = p. With
    them A is 1 with the probability p (1 - exp(-(s - refractory) / recovery)), s being the time since the
    last spike of the unit, and 0 while s < refractory. In step 0, A = 0. Source: PetaVision's
    `RetinaActivityBuffer.cpp`. Stimuli of other networks are layers of type `poisson`.
    """

    draws: ClassVar[Mapping[str, Draw]] = {"chance": "uniform"}
    type: Literal["retina"] = "retina"
    spikes: Flag = True
    """Whether units spike; else their activity is the probability (spikingFlag)."""
    rate: NonNegative = 1.0
    """Rate of spikes at an input of 1, in Hz (foregroundRate)."""
    background: NonNegative = 0.0
    """Rate of spikes without input, in Hz (backgroundRate)."""
    refractory: NonNegative = 3.0
    """Time after a spike in which a unit does not spike, in ms (absRefractoryPeriod)."""
    recovery: NonNegative = 5.0
    """Time constant with which its probability recovers thereafter, in ms (refractoryPeriod)."""
    begin: NonNegative = 0.0
    """Time at which the input begins to count, in ms (beginStim)."""
    end: float = math.inf
    """Time at which it ends to count, in ms (endStim)."""
    burst_rate: Finite = 1.0
    """Bursts in a second; with 0, or without duration, b(t) = cos(2 pi burst_rate t / 1000) (burstFreq)."""
    burst_duration: Finite = 1000.0
    """Duration of a burst, in ms (burstDuration)."""

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: spikes are rare."""
        return self.spikes

    @property
    def silent(self) -> bool:
        """Without a background."""
        return self.background == 0

    @property
    def host_numbers(self) -> bool:
        """The chances, and b(t), are sent by the host."""
        return True

    @property
    def unused(self) -> Mapping[str, str]:
        """Times of recovery, without spikes."""
        if self.spikes:
            return {}
        fields = type(self).model_fields
        times = ("refractory", "recovery")
        return {key: "without spikes" for key in times if getattr(self, key) != fields[key].default}

    def variables(self) -> Sequence[Variable]:
        """Declare the time since the last spike; at the start units may spike."""
        long = 10 * self.refractory
        return (
            Variable("since", self.shape, LAYER_DIMS, "time since the last spike", units="ms", initial=long),
        )

    def compiled_rule(self) -> CompiledRule:
        """Return the row function, which is told the time."""
        row = row_function(self)
        assert row is not None
        return CompiledRule("row", memory=True, row=replace(row, form=row.form._replace(timed=True)))

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """Make one step of some units."""
        t = p.t + p.dt
        burst = 0.0
        if p.burst_duration <= 0 or p.burst_rate == 0:
            burst = math.cos(2 * math.pi * p.burst_rate * t / 1000)
        elif t % (1000 / p.burst_rate) < p.burst_duration:
            burst = 1.0
        if t < p.begin or t >= p.end:
            burst = 0.0
        base, seen = min(1.0, p.background * p.dt / 1000), burst * min(1.0, p.rate * p.dt / 1000)
        for i in range(A.size):
            chance = base + seen * drive[0][i]
            if not p.spikes:
                A[i] = chance
                continue
            since = state.since[i] + p.dt
            if since < p.refractory:
                chance = 0.0
            elif p.recovery > 0:
                chance *= 1 - math.exp(-(since - p.refractory) / p.recovery)
            A[i] = draws.chance[i] < chance
            state.since[i] = 0.0 if A[i] > 0 else since

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make one step of whole arrays."""
        xp, t = ctx.xp, ctx.clock.time(ctx.step)
        base = min(1.0, self.background * ctx.dt / 1000)
        chance = base + self._burst(t) * min(1.0, self.rate * ctx.dt / 1000) * drive[0]
        if not self.spikes:
            activity[...] = chance
            return
        since = state["since"] + ctx.dt
        if self.recovery > 0:
            chance = chance * -xp.expm1(-(since - self.refractory) / self.recovery)
        drawn = drawn_together(self, ctx, "chance")
        activity[...] = (drawn < chance) & (since >= self.refractory)
        state["since"][...] = xp.where(activity > 0, 0.0, since)

    def _burst(self, t: float) -> float:
        if not self.begin <= t < self.end:
            return 0.0
        if self.burst_duration <= 0 or self.burst_rate == 0:
            return math.cos(2 * math.pi * self.burst_rate * t / 1000)
        return float(np.fmod(t, 1000 / self.burst_rate) < self.burst_duration)
