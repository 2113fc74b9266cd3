"""Izhikevich's neurons: two variables, and spikes where the potential exceeds 30 mV.

Source: Izhikevich 2003, "Simple model of spiking neurons", IEEE Trans. Neural Networks 14, 1569-1572.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from petabatch.spec.model import Finite, NonNegative
from petabatch.spec.parts import Layer
from petabatch.variable import LAYER_DIMS, Variable

Pair = tuple[Finite, Finite]


class Izhikevich(Layer):
    """v' = 0.04 v^2 + 5 v + 140 - u + I,  u' = a (b v - u);  after a spike v = c, u = u + d.

    Each of a, b, c and d is drawn for each neuron between two values, by one random number r: `a = [0.02,
    0.1]` is 0.02 + 0.08 r, of c and d it is r^2. The run's `dt` is in ms; v makes two half steps.
    """

    type: Literal["izhikevich"] = "izhikevich"
    a: Pair = (0.02, 0.02)
    """Rate of the recovery u, in 1/ms."""
    b: Pair = (0.2, 0.2)
    """How far u follows v."""
    c: Pair = (-65.0, -65.0)
    """v after a spike, in mV."""
    d: Pair = (8.0, 8.0)
    """Increase of u at a spike."""
    noise: NonNegative = 0.0
    """Standard deviation of the input that each neuron receives in addition, new in each step."""
    kinds: int = 1
    """Seed of r; the neurons are the same in all slices."""

    draws = {"thalamus": "normal"}  # noqa: RUF012

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: yes, spikes are rare."""
        return True

    def variables(self) -> Sequence[Variable]:
        """Declare potential and recovery, and what differs from neuron to neuron."""
        return (
            Variable("v", self.shape, LAYER_DIMS, "membrane potential", units="mV", initial=-65.0),
            Variable("u", self.shape, LAYER_DIMS, "recovery"),
            *(Variable(name, self.shape, LAYER_DIMS, f"parameter {name}") for name in "abcd"),
        )

    def prepare(self, state: Mapping[str, Any], activity: Any) -> None:
        """Draw the kinds of neurons, which start at rest."""
        r = np.random.default_rng(self.kinds).random(self.shape)
        for name in "abcd":
            low, high = getattr(self, name)
            state[name][...] = low + (high - low) * (r if name in "ab" else r**2)
        state["u"][...] = state["b"] * state["v"]

    def restart(self, state: Mapping[str, Any], potential: Any) -> None:
        """Reset all but the kinds of neurons."""
        state["v"][...] = -65
        state["u"][...] = state["b"] * state["v"]

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """One step of some neurons; A holds the spikes of the step before."""
        half = np.float32(0.5) * p.dt
        for i in range(A.size):
            fired = A[i] > 0
            v, u, after, rise = state.v[i], state.u[i], state.c[i], state.d[i]
            v = after if fired else v
            u = u + rise if fired else u
            current = drive[0][i] + p.noise * draws.thalamus[i]
            v += half * (np.float32(0.04) * v * v + np.float32(5) * v + np.float32(140) - u + current)
            v += half * (np.float32(0.04) * v * v + np.float32(5) * v + np.float32(140) - u + current)
            state.v[i] = v
            state.u[i] = u + p.dt * state.a[i] * (state.b[i] * v - u)
            A[i] = v >= np.float32(30)
