"""A plug-in's neurons as a row function and for arrays, against a built-in spiking layer and batched NumPy.

    python benchmarks/plugin_layers.py [ROUNDS]

Integrate-and-fire neurons, 32 x 32 x 8 units of two slices, each driven one to one by an image: as a row
function, for arrays, and a built-in layer. Izhikevich's neurons, 64 of them with random synapses and noise,
in 64 slices: as a row function, for arrays, the same called slice by slice, and in 15 lines of NumPy.

One thread; all take turns, in processor time. Printed are medians of the time of a slice and step, and of
its ratio to the row function's.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch.connections import Conv, Identity
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.layers import ConductanceLIF, Input
from petabatch.sources import ImageArray
from petabatch.spec.model import NonNegative, Positive
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import drawn_together
from petabatch.variable import LAYER_DIMS, Variable
from petabatch.weights import Gaussian

SHAPE, BATCH, STEPS, ROUNDS = (32, 32, 8), 2, 4000, 9
NEURONS, SLICES, NETWORK_STEPS, STRENGTH, NOISE = 64, 64, 500, 2.0, 5.0


class LIF(Layer):
    """V decays towards its input; from 1 on the neuron spikes, and V is 0 for the refractory time."""

    type: Literal["benchmark_lif"] = "benchmark_lif"
    tau: Positive = 20.0
    refractory: NonNegative = 2.0

    @property
    def sparse(self) -> bool:
        """Spikes are rare."""
        return True

    def variables(self) -> Sequence[Variable]:
        """Declare the potential and the refractory time left."""
        return Variable("V", self.shape, LAYER_DIMS), Variable("rest", self.shape, LAYER_DIMS)

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """Make one Euler step of some units."""
        for i in range(A.size):
            v, rest = state.V[i], state.rest[i]
            resting = rest > 0
            if resting:
                rest -= p.dt
            else:
                v += p.dt / p.tau * (drive[0][i] - v)
            spikes = v >= 1 and not resting
            A[i] = spikes
            state.V[i] = 0 if spikes else v
            state.rest[i] = p.refractory if spikes else rest


class ArrayLIF(LIF):
    """The same neurons with an update for arrays alone."""

    type: Literal["array_lif"] = "array_lif"  # type: ignore[assignment]

    def update(
        self, ctx: StepContext, state: Mapping[str, Any], drive: Sequence[Any], previous: Any, activity: Any
    ) -> None:
        """Make one Euler step; every array is `[slices, ny, nx, nf]`."""
        potential, rest = state["V"], state["rest"]
        resting = rest > 0
        potential += np.float32(ctx.dt / self.tau) * (drive[0] - potential) * ~resting
        spikes = (potential >= 1) & ~resting
        potential[spikes] = 0
        rest -= np.float32(ctx.dt) * resting
        rest[spikes] = self.refractory
        activity[...] = spikes


class Izhikevich(Layer):
    """v' = 0.04 v^2 + 5 v + 140 - u + I, u' = 0.02 (0.2 v - u); after a spike v = -65, u = u + 8."""

    type: Literal["benchmark_izhikevich"] = "benchmark_izhikevich"
    noise: NonNegative = 0.0
    draws = {"thalamus": "normal"}  # noqa: RUF012

    @property
    def sparse(self) -> bool:
        """Spikes are rare."""
        return True

    def variables(self) -> Sequence[Variable]:
        """Declare potential and recovery, and what could differ from neuron to neuron."""
        starts = {"v": -65.0, "u": -13.0, "a": 0.02, "b": 0.2, "c": -65.0, "d": 8.0}
        return tuple(Variable(name, self.shape, LAYER_DIMS, initial=one) for name, one in starts.items())

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """Make one step of some neurons; A holds the spikes of the step before."""
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


class ArrayIzhikevich(Izhikevich):
    """The same neurons with an update for arrays alone."""

    type: Literal["array_izhikevich"] = "array_izhikevich"  # type: ignore[assignment]

    def update(
        self, ctx: StepContext, state: Mapping[str, Any], drive: Sequence[Any], previous: Any, activity: Any
    ) -> None:
        """Make one step, the potential two half steps."""
        v, u, fired = state["v"], state["u"], previous > 0
        np.copyto(v, state["c"], where=fired)
        u += np.where(fired, state["d"], np.float32(0))
        current = drive[0] + np.float32(self.noise) * drawn_together(self, ctx, "thalamus")
        for _ in range(2):
            v += np.float32(0.5) * (
                (np.float32(0.04) * v + np.float32(5)) * v + np.float32(140) - u + current
            )
        u += state["a"] * (state["b"] * v - u)
        activity[...] = v >= 30


def batched_numpy(weights: np.ndarray, steps: int) -> np.ndarray:
    """Return the last spikes of the same network in all slices at once; the weights are `[from, to]`."""
    rng, f = np.random.default_rng(0), np.float32
    v = np.full((SLICES, NEURONS), -65, np.float32)
    u = f(0.2) * v
    fired = np.zeros(v.shape, bool)
    for _ in range(steps):
        np.copyto(v, f(-65), where=fired)
        u += np.where(fired, f(8), f(0))
        current = fired.astype(np.float32) @ weights + f(NOISE) * rng.standard_normal(v.shape, np.float32)
        for _ in range(2):
            v += f(0.5) * ((f(0.04) * v + f(5)) * v + f(140) - u + current)
        u += f(0.02) * (f(0.2) * v - u)
        fired = v >= 30
    return fired


def alone(layer: Layer, strength: float) -> Network:
    """Return a layer that sees an image in each slice."""
    images = np.random.default_rng(0).random((BATCH, *SHAPE), np.float32)
    layers = {"image": Input(shape=SHAPE, source=ImageArray(data=images)), "sheet": layer}
    connections = {"current": Identity(pre="image", post="sheet", strength=strength)}
    return Network(run=Run(batch=BATCH, steps=STEPS, display=STEPS), layers=layers, connections=connections)


def recurrent(kind: Any) -> Network:
    """Return neurons that excite and inhibit each other."""
    synapses = Conv(pre="neurons", post="neurons", patch=(1, 1), init=Gaussian(std=STRENGTH), feedback=True)
    run = Run(batch=SLICES, steps=NETWORK_STEPS, display=NETWORK_STEPS)
    layers = {"neurons": kind(shape=(1, 1, NEURONS), noise=NOISE)}
    return Network(run=run, layers=layers, connections={"synapses": synapses})


def runs(network: Network, together: int | None = None) -> Iterator[float]:
    """Yield the processor time of a slice and step, in microseconds, of one run after another."""
    assembly, run = Assembly.of(network, threads=1), network.run
    if together is not None:
        assembly = assembly.planned(method=replace(assembly.plan.method, together=together))
    engine = assembly.engine()
    engine.start()
    while True:
        begin = time.process_time()
        for _ in drive(engine):
            pass
        yield 1e6 * (time.process_time() - begin) / (run.batch * run.length)
        engine.restart()


def runs_of_numpy() -> Iterator[float]:
    """Yield the same of batched NumPy."""
    weights = np.random.default_rng(1).normal(0, STRENGTH, (NEURONS, NEURONS)).astype(np.float32)
    while True:
        with threadpool_limits(1):
            begin = time.process_time()
            batched_numpy(weights, NETWORK_STEPS)
            yield 1e6 * (time.process_time() - begin) / (SLICES * NETWORK_STEPS)


def compare(title: str, rivals: Mapping[str, Iterator[float]], rounds: int) -> None:
    """Print the times of rivals that take turns."""
    for rival in rivals.values():
        next(rival)
    found: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, rival in rivals.items():
            found[name].append(next(rival))
    print(f"{title:36} {'us/slice/step':>14} {'ratio':>7}")
    for name, times in found.items():
        ratio = statistics.median(a / b for a, b in zip(times, found["row function"], strict=True))
        print(f"{name:36} {statistics.median(times):14.2f} {ratio:7.2f}")
    print(flush=True)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    neurons = {
        "row function": runs(alone(LIF(shape=SHAPE), 2.5)),
        "for arrays": runs(alone(ArrayLIF(shape=SHAPE), 2.5)),
        "built-in conductance_lif": runs(alone(ConductanceLIF(shape=SHAPE), 0.05)),
    }
    compare("integrate-and-fire, 32 x 32 x 8", neurons, rounds)
    networks = {
        "row function": runs(recurrent(Izhikevich)),
        "for arrays": runs(recurrent(ArrayIzhikevich)),
        "for arrays, slice by slice": runs(recurrent(ArrayIzhikevich), together=1),
        "NumPy, all slices in one array": runs_of_numpy(),
    }
    compare(f"Izhikevich, {NEURONS} neurons, {SLICES} slices", networks, rounds)


if __name__ == "__main__":
    main()
