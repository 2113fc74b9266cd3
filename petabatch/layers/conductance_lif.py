"""Leaky integrate-and-fire neurons with conductances and an adaptive threshold, as PetaVision has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from petabatch.layers.noise import drawn
from petabatch.spec.model import Finite, NonNegative, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array, Variable

LARGEST_CONDUCTANCE = 10.0


class ConductanceLIF(Layer):
    """Conductances G of three channels pull V towards their reversal potentials; a spike resets V.

    Input adds to G, in units of the leak's conductance. With G decaying over a step of dt (in ms),

        1 / tau_inf = (1 + sum G) / tau,   V_inf = (rest + sum G * reversal) / (1 + sum G)

    at its beginning (s) and end (e), and k = (tau_e - tau_s) / dt, method `arma` solves the membrane equation
    with both changing linearly (`LIFActivityComponent.cpp:800-940` of the original):

        V = f1 V + f2 V_s + f3 V_e,   f1 = (tau_e / tau_s)^(-1/k),  f2 = (1 - (tau_s / dt)(1 - f1)) / (1 + k),
        f3 = 1 - f1 - f2

    Method `heun` is the second-order step (the original's `beginning`). Then the threshold relaxes to its own
    rest; where V is above it A = 1, V returns to `rest`, the threshold rises by `fatigue`, and the channel
    `inh_b` opens by `after`.
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {
        "exc": (0, 1.0),
        "inh": (1, 1.0),
        "inh_b": (2, 1.0),
    }
    graph_safe: ClassVar[bool] = True
    type: Literal["conductance_lif"] = "conductance_lif"
    method: Literal["arma", "heun"] = "arma"
    tau: Positive = 20.0
    """Membrane time constant at rest."""
    rest: Finite = -70.0
    """Potential without input, and after a spike (Vrest)."""
    reversal: tuple[Finite, Finite, Finite] = (0.0, -75.0, -90.0)
    """Potentials that exc, inh and inh_b pull to (Vexc, Vinh, VinhB)."""
    decay: tuple[Positive, Positive, Positive] = (1.0, 5.0, 10.0)
    """Time constants of the three conductances (tauE, tauI, tauIB)."""
    threshold: Finite = -55.0
    """Threshold at rest (VthRest)."""
    recovery: Positive = 10.0
    """Time constant of the threshold (tauVth)."""
    fatigue: NonNegative = 5.0
    """Rise of the threshold at a spike (deltaVth)."""
    after: NonNegative = 1.0
    """Rise of the conductance inh_b at a spike (deltaGIB)."""
    noise: tuple[NonNegative, NonNegative, NonNegative] = (0.0, 0.0, 0.0)
    """Largest size of a random input to exc, inh and inh_b; all sizes up to it are equally likely (noiseAmpE,
    noiseAmpI, noiseAmpIB)."""
    noise_rate: tuple[NonNegative, NonNegative, NonNegative] = (250.0, 250.0, 250.0)
    """Random inputs to each unit in 1000 units of time, so in Hz with dt in ms (noiseFreqE, ...)."""

    @property
    def host_numbers(self) -> bool:
        """Noise is drawn by the host."""
        return any(self.noise)

    def variables(self) -> Sequence[Variable]:
        """Declare potential, threshold and the three conductances."""
        dims = ("y", "x", "feature")
        return (
            Variable("V", self.shape, dims, "membrane potential", units="mV", initial=self.rest),
            Variable("Vth", self.shape, dims, "threshold", units="mV", initial=self.threshold),
            *(
                Variable(name, self.shape, dims, f"conductance of channel {channel} over the leak's")
                for name, channel in zip(_CONDUCTANCES, self.channels, strict=True)
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
        """Integrate over one step and let neurons spike."""
        xp, dt = ctx.xp, ctx.dt
        potential, threshold = state["V"], state["Vth"]
        inputs = self._noisy(ctx, drive)
        before = [state[name] + given for name, given in zip(_CONDUCTANCES, inputs, strict=True)]
        limited = [xp.minimum(g, LARGEST_CONDUCTANCE) for g in before]
        after = [g * math.exp(-dt / tau) for g, tau in zip(limited, self.decay, strict=True)]
        end = self._pull(after)
        if self.method == "arma":
            # As the original has it: no limit yet at the beginning, and inh_b of the beginning in tau_e.
            tau_end = self.tau / (1 + after[0] + after[1] + limited[2])
            potential[...] = _arma(potential, self._pull(before), (tau_end, end[1]), dt, xp)
        else:
            potential[...] = _heun(potential, self._pull(limited), end, dt)
        threshold[...] = self.threshold + (threshold - self.threshold) * math.exp(-dt / self.recovery)
        spikes = potential > threshold
        activity[...] = spikes
        potential[...] = xp.where(spikes, self.rest, potential)
        threshold += self.fatigue * spikes
        after[2] = after[2] + self.after * spikes
        for name, value in zip(_CONDUCTANCES, after, strict=True):
            state[name][...] = value

    def _noisy(self, ctx: StepContext, drive: Sequence[Array]) -> Sequence[Array]:
        """Return the input of each channel, with noise in a random part of the units."""
        if not any(self.noise):
            return drive
        chance = [min(1.0, rate * ctx.dt / 1000) for rate in self.noise_rate]

        def draw(rng: np.random.Generator) -> np.ndarray:
            hits, sizes = rng.random((2, 3, *self.shape))
            return np.stack(
                [a * u * (hit < p) for a, u, hit, p in zip(self.noise, sizes, hits, chance, strict=True)]
            )

        noise = drawn(ctx, draw)
        return [given + noise[:, number] for number, given in enumerate(drive)]

    def _pull(self, conductances: Sequence[Array]) -> tuple[Array, Array]:
        """Return (time constant, potential) that the conductances pull with."""
        total = 1 + sum(conductances)
        pulled = self.rest + sum(g * v for g, v in zip(conductances, self.reversal, strict=True))
        return self.tau / total, pulled / total


_CONDUCTANCES = ("G_E", "G_I", "G_IB")


def _arma(v: Array, start: tuple[Array, Array], end: tuple[Array, Array], dt: float, xp: Any) -> Array:
    (tau_s, v_s), (tau_e, v_e) = start, end
    k = (tau_e - tau_s) / dt
    steady = k == 0
    f1 = xp.where(steady, xp.exp(-dt / tau_s), (tau_e / tau_s) ** (-1 / xp.where(steady, 1, k)))
    f2 = (1 - tau_s / dt * (1 - f1)) / (1 + k)
    return f1 * v + f2 * v_s + (1 - f1 - f2) * v_e


def _heun(v: Array, start: tuple[Array, Array], end: tuple[Array, Array], dt: float) -> Array:
    first = (start[1] - v) / start[0]
    second = (end[1] - (v + dt * first)) / end[0]
    return v + dt / 2 * (first + second)
