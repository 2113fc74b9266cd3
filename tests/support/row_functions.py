"""A layer with a row function and the same update for arrays, as a plug-in has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from petabatch.connections import Conv, Identity
from petabatch.kernels.rows import Draw
from petabatch.layers import Input
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import drawn
from petabatch.variable import LAYER_DIMS, Array, Variable
from petabatch.weights import Gaussian
from support.networks import GivenImages


class Adaptive(Layer):
    """V leaks towards its noisy input, `gate` scales it, and `fatigue` grows with the activity."""

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {
        "exc": (0, 1.0),
        "inh": (0, -1.0),
        "gate": (1, 1.0),
    }
    draws: ClassVar[Mapping[str, Draw]] = {"noise": "normal", "chance": "uniform"}
    type: Literal["adaptive"] = "adaptive"
    tau: float = 5.0
    rise: int = 2
    signed: bool = True
    bounds: tuple[float, float] = (-0.7, 0.9)
    std: float = 0.1

    def variables(self) -> Sequence[Variable]:
        return (
            Variable("V", self.shape, LAYER_DIMS, initial=0.1),
            Variable("fatigue", self.shape, LAYER_DIMS),
        )

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        for i in range(A.size):
            heard = drive[0][i] * (1 + drive[1][i]) + p.std * draws.noise[i]
            v = state.V[i] + p.dt / p.tau * (heard - state.fatigue[i] - state.V[i])
            state.V[i] = v
            state.fatigue[i] += p.dt * (p.rise * A[i] - state.fatigue[i]) / 8
            low = p.bounds[0] if p.signed else 0 * p.tau
            A[i] = min(max(v, low), p.bounds[1]) if draws.chance[i] < 0.75 else 0

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        xp = ctx.xp
        noise, chance = (
            xp.asarray(np.stack([drawn(self, ctx, name, n) for n in ctx.slices])) for name in self.draws
        )
        heard = drive[0] * (1 + drive[1]) + self.std * noise
        potential, fatigue = state["V"], state["fatigue"]
        potential += ctx.dt / self.tau * (heard - fatigue - potential)
        fatigue += ctx.dt * (self.rise * previous - fatigue) / 8
        low = self.bounds[0] if self.signed else 0
        activity[...] = xp.clip(potential, low, self.bounds[1]) * (chance < 0.75)


class ByRowAlone(Adaptive):
    """The same without the update for arrays."""

    type: Literal["by_row_alone"] = "by_row_alone"  # type: ignore[assignment]
    row = staticmethod(Adaptive.row)
    update = Layer.update


def network(layer: Layer, slices: dict[str, tuple[float, ...]] | None = None, **keys: Any) -> Network:
    """Return a layer that sees images and, later, itself and its neighbours."""
    images = np.random.default_rng(0).normal(size=(3, 2, *layer.shape)).astype(np.float32)
    layers = {"image": Input(shape=layer.shape, source=GivenImages(data=images)), "L": layer}
    connections = {
        "see": Identity(pre="image", post="L"),
        "gate": Identity(pre="image", post="L", channel="gate", delay_steps=2, strength=0.3),
        "back": Conv(pre="L", post="L", feedback=True, patch=(1, 3), init=Gaussian(std=0.05), channel="inh"),
    }
    if "gate" not in layer.channels:
        del connections["gate"]
    run = Run(batch=3, steps=20, display=10, dt=0.5, **keys)
    return Network(run=run, layers=layers, connections=connections, slices=slices or {})
