"""Small networks whose weights all slices share, and their runs in groups of any size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.connections import Conv, Identity, Transpose
from petabatch.engine.engine import Engine
from petabatch.layers import LCA, GaussianNoise, Input, LeakyIntegrator, Linear, Rectified, Sigmoid
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import L2
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.spec.parts import NEVER, STEP, Connection, Layer
from petabatch.spec.schedule import Every
from support.networks import GivenImages, GivenWeights, collect
from support.random_runs import Arrays, states


def recurrent_network(seed: int, batch: int) -> Network:
    """Return a random net of rates with noise that excites itself, a code of it, and a small convolution."""
    rng = np.random.default_rng(seed)

    def one_of(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    n, m, display = int(rng.integers(3, 40)), int(rng.integers(5, 30)), 6
    rate = one_of(
        Sigmoid(shape=(1, 1, n), width=0.5),
        Rectified(shape=(1, 1, n), threshold=one_of(0.0, 1.0)),  # with few units active, or many
    )
    reset = one_of(NEVER, Every(4), Every(1, "displays"))
    data = rng.normal(size=(batch, 3, 1, 1, n)).astype(np.float32)
    layers: dict[str, Layer] = {
        "input": Input(shape=(1, 1, n), source=GivenImages(data=data)),
        "rate": rate,
        "noise": GaussianNoise(shape=(1, 1, n), std=0.3),
        "x": LeakyIntegrator(shape=(1, 1, n), tau=5.0),
        "code": LCA(shape=(1, 1, m), tau=4.0, threshold=0.2, reset=reset),
        "grid": Linear(shape=(2, 3, m)),
    }

    def weights(*shape: int) -> GivenWeights:
        return GivenWeights(data=0.5 * rng.normal(size=shape) / shape[2])

    learn = one_of(None, Hebbian(rate=1e-3, every=Every(1, "displays")))
    connections: dict[str, Connection] = {
        "see": Identity(pre="input", post="x"),
        "fire": Identity(pre="x", post="rate", feedback=True),
        "disturb": Identity(pre="noise", post="x"),
        "self": Conv(
            pre="rate", post="x", patch=(1, 1), init=weights(1, 1, n, 1, 1, n), delay_steps=one_of(0, 2)
        ),
        "read": Conv(pre="code", post="x", patch=(1, 1), init=weights(1, 1, m, 1, 1, n), feedback=True),
        "drive": Transpose(pre="x", post="code", of="read"),
        "down": Conv(pre="grid", post="code", patch=(1, 1), init=weights(2, 3, m, 1, 1, m), feedback=True),
        "up": Conv(pre="code", post="grid", patch=(2, 3), init=weights(1, 1, m, 2, 3, m), learn=learn),
    }
    output = Output(
        layers={name: LayerOutput(every=one_of(STEP, Every(3))) for name in layers},
        connections={"up": ConnectionOutput()},
        flush=Every(1, "displays"),
    )
    run = Run(batch=batch, displays=3, display=display, dt=0.5, kernel="dense")
    probes = {"size": L2(layer="x", every=STEP)}
    return Network(run=run, layers=layers, connections=connections, output=output, probes=probes)


def in_groups(
    network: Network, most: int, threads: int = 1, tolerant: bool = False
) -> tuple[Engine, dict[str, np.ndarray]]:
    """Run with up to `most` slices in one call; return the engine and all arrays, stored or recorded."""
    plan = replace(schedule(build(network)), tolerant=tolerant)
    for one, _ in plan.of_slices:
        assert one.method.together > 1, one.method.alone
        object.__setattr__(one, "method", replace(one.method, together=most))
    engine = Engine(plan, Serial(), threads)
    engine.start()
    recorded = collect(engine)
    return engine, everything(states(engine), recorded)


def everything(state: Arrays, recorded: Arrays) -> dict[str, np.ndarray]:
    """Return what is stored and what was recorded under names of their own."""
    return {**state, **{f"recorded/{path}": values for path, values in recorded.items()}}
