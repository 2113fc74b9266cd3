"""Conductance-based leaky integrate-and-fire neurons with an adaptive threshold, after PetaVision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from petabatch.layers.noise import drawn
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, NonNegative, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import LAYER_DIMS, Array, Variable

LARGEST_CONDUCTANCE = 10.0
METHODS = ("arma", "heun", "arma_gap")
"""Methods of integration, by their numbers in compiled steps."""
_FOLLOWED = 200
"""Steps for which a unit that constants drive is followed before a run."""


class ConductanceLIF(Layer):
    """Leaky integrate-and-fire neurons with three conductances and an adaptive threshold.

    Input of each channel adds to its conductance G, in units of the leak conductance; G then decays
    exponentially. Effective time constant and equilibrium potential are

        tau_inf = tau / (1 + sum G),   V_inf = (rest + sum G * reversal) / (1 + sum G)

    Gap junctions of conductances g to units of potential V_j add sum_j g V_j, the input of channel `gap`, to
    rest + sum G * reversal, and sum_j g, that of `gap_conductance`, to 1 + sum G; both are constant during
    a step. Connections of type `potential` provide V_j, and a layer of ones sum_j g through the same weights.

    With the values at the start (s) and end (e) of a step of dt (in ms) and k = (tau_e - tau_s) / dt, method
    `arma` solves the membrane equation for tau_inf and V_inf that change linearly during the step
    (PetaVision's `LIFActivityComponent.cpp:800-940`):

        V = f1 V + f2 V_s + f3 V_e,   f1 = (tau_e / tau_s)^(-1/k),  f2 = (1 - (tau_s / dt)(1 - f1)) / (1 + k),
        f3 = 1 - f1 - f2

    In `arma` tau_e is that of inh_b at the start of the step, as in PetaVision's LIF; in `arma_gap` that of
    inh_b at its end, as in LIFGap (`LIFGapActivityComponent.cpp`). Method `heun` is Heun's second-order
    method (PetaVision's `beginning`). The threshold then relaxes towards its resting value. Where V exceeds
    it, the unit spikes: A = 1, V is reset to `rest`, the threshold rises by `fatigue`, and the conductance of
    channel `inh_b` by `after`.
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {
        "exc": (0, 1.0),
        "inh": (1, 1.0),
        "inh_b": (2, 1.0),
        "gap": (3, 1.0),
        "gap_conductance": (4, 1.0),
    }
    capabilities = Capabilities(graph_safe=True)
    diverges: ClassVar[str] = (
        "the membrane is unstable where conductances sum up to -1 or less: make strengths and weights into "
        "its channels positive, or smaller"
    )
    type: Literal["conductance_lif"] = "conductance_lif"
    method: Literal["arma", "arma_gap", "heun"] = "arma"
    """Integration method of the membrane equation."""
    tau: Positive = 20.0
    """Membrane time constant at rest, in ms."""
    rest: Finite = -70.0
    """Resting and reset potential, in mV (Vrest)."""
    reversal: tuple[Finite, Finite, Finite] = (0.0, -75.0, -90.0)
    """Reversal potentials of channels exc, inh and inh_b, in mV (Vexc, Vinh, VinhB)."""
    decay: tuple[Positive, Positive, Positive] = (1.0, 5.0, 10.0)
    """Time constants of the three conductances, in ms (tauE, tauI, tauIB)."""
    threshold: Finite = -55.0
    """Resting value of the threshold, in mV (VthRest)."""
    recovery: Positive = 10.0
    """Time constant of the threshold, in ms (tauVth)."""
    fatigue: NonNegative = 5.0
    """Increase of the threshold at a spike, in mV (deltaVth)."""
    after: NonNegative = 1.0
    """Increase of the conductance of inh_b at a spike (deltaGIB)."""
    noise: tuple[NonNegative, NonNegative, NonNegative] = (0.0, 0.0, 0.0)
    """Amplitudes of the noise in channels exc, inh and inh_b: each random input is uniform between 0 and this
    (noiseAmpE, noiseAmpI, noiseAmpIB)."""
    noise_rate: tuple[NonNegative, NonNegative, NonNegative] = (250.0, 250.0, 250.0)
    """Rates of the random inputs to each unit, in Hz with dt in ms (noiseFreqE, noiseFreqI, noiseFreqIB)."""

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: yes, spikes are rare."""
        return True

    @property
    def silent(self) -> bool:
        """Without noise, if the potential rests below the threshold."""
        return not any(self.noise) and self.rest <= self.threshold

    @property
    def host_numbers(self) -> bool:
        """Noise is drawn by the host."""
        return any(self.noise)

    def compiled_rule(self) -> CompiledRule:
        """Return the same, with the same random numbers."""
        numbers = {
            "method": float(METHODS.index(self.method)),
            "recovery": self.recovery,
            **{key: getattr(self, key) for key in ("tau", "rest", "threshold", "fatigue", "after")},
            "largest": LARGEST_CONDUCTANCE,
        }
        for key in ("reversal", "decay", "noise", "noise_rate"):
            numbers |= {f"{key} {number}": value for number, value in enumerate(getattr(self, key))}
        return CompiledRule("conductance_lif", numbers, memory=True, variables=("V", "Vth", *_CONDUCTANCES))

    def refused(self, drive: Sequence[float | None], dt: float, steps: int) -> str:
        """Refuse a drive under which a unit's potential does not stay finite; known without noise."""
        given = [np.full((1, 1, 1, 1), np.nan if one is None else one) for one in drive]
        if None in drive or any(self.noise) or self.start or not self.steady:
            return ""
        state = {variable.name: np.full((1, 1, 1, 1), variable.initial) for variable in self.variables()}
        activity = np.zeros((1, 1, 1, 1))
        with np.errstate(all="ignore"):
            for step in range(1, min(steps, _FOLLOWED) + 1):
                self.update(StepContext(step, dt, (0,), 0), state, given, activity, activity)
                if not np.isfinite(state["V"]).all():
                    return f"V is {state['V'].item():g} in step {step}"
        return ""

    def variables(self) -> Sequence[Variable]:
        """Declare potential, threshold and the three conductances."""
        return (
            Variable("V", self.shape, LAYER_DIMS, "membrane potential", units="mV", initial=self.rest),
            Variable("Vth", self.shape, LAYER_DIMS, "threshold", units="mV", initial=self.threshold),
            *(
                Variable(name, self.shape, LAYER_DIMS, f"conductance of channel {channel} over the leak's")
                for name, channel in zip(_CONDUCTANCES, self.channels, strict=False)
            ),
        )

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Integrate one step, in float64, since `_arma` amplifies rounding, and emit spikes."""
        xp, dt = ctx.xp, ctx.dt
        potential, threshold = state["V"], state["Vth"]
        v, inputs = potential.astype(float), self._noisy(ctx, drive[:3])
        gap = drive[3].astype(float), drive[4].astype(float)
        before = [
            state[name].astype(float) + given for name, given in zip(_CONDUCTANCES, inputs, strict=True)
        ]
        limited = [xp.minimum(g, LARGEST_CONDUCTANCE) for g in before]
        after = [g * math.exp(-dt / tau) for g, tau in zip(limited, self.decay, strict=True)]
        end = self._pull(after, gap)
        if self.method == "heun":
            potential[...] = _heun(v, self._pull(limited, gap), end, dt)
        else:
            # As in PetaVision, the conductances at the start are not limited.
            tau_end = end[0]
            if self.method == "arma":
                tau_end = self.tau / (1 + after[0] + after[1] + limited[2] + gap[1])
            potential[...] = _arma(v, self._pull(before, gap), (tau_end, end[1]), dt, xp)
        threshold[...] = self.threshold + (threshold - self.threshold) * math.exp(-dt / self.recovery)
        spikes = potential > threshold
        activity[...] = spikes
        potential[...] = xp.where(spikes, self.rest, potential)
        threshold += self.fatigue * spikes
        after[2] = after[2] + self.after * spikes
        for name, value in zip(_CONDUCTANCES, after, strict=True):
            state[name][...] = value

    def _noisy(self, ctx: StepContext, drive: Sequence[Array]) -> Sequence[Array]:
        """Return the input of each channel, plus noise where it is on."""
        if not any(self.noise):
            return drive
        chance = [min(1.0, rate * ctx.dt / 1000) for rate in self.noise_rate]

        def draw(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
            hits, sizes = rng.random((2, 3, *shape))
            return np.stack(
                [a * u * (hit < p) for a, u, hit, p in zip(self.noise, sizes, hits, chance, strict=True)]
            )

        noise = drawn(ctx, self.shape, draw)
        return [given + noise[:, number] for number, given in enumerate(drive)]

    def _pull(self, conductances: Sequence[Array], gap: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return (tau_inf, V_inf) for these conductances, and the inputs of gap junctions."""
        total = 1 + sum(conductances) + gap[1]
        pulled = self.rest + sum(g * v for g, v in zip(conductances, self.reversal, strict=True)) + gap[0]
        return self.tau / total, pulled / total


_CONDUCTANCES = ("G_E", "G_I", "G_IB")


def _arma(v: Array, start: tuple[Array, Array], end: tuple[Array, Array], dt: float, xp: Any) -> Array:
    (tau_s, v_s), (tau_e, v_e) = start, end
    k = (tau_e - tau_s) / dt
    steady = k == 0
    # (tau_e / tau_s) ** (-1 / k), which would amplify the rounding of a ratio near 1.
    f1 = xp.exp(xp.where(steady, -dt / tau_s, -xp.log1p(k * dt / tau_s) / xp.where(steady, 1, k)))
    f2 = (1 - tau_s / dt * (1 - f1)) / (1 + k)
    return f1 * v + f2 * v_s + (1 - f1 - f2) * v_e


def _heun(v: Array, start: tuple[Array, Array], end: tuple[Array, Array], dt: float) -> Array:
    first = (start[1] - v) / start[0]
    second = (end[1] - (v + dt * first)) / end[0]
    return v + dt / 2 * (first + second)
