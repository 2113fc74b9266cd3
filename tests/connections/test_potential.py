"""Variables of layers as input: the same under all steppers, for each variable of each type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch.connections import Identity, Potential
from petabatch.layers import (
    FISTA,
    LCA,
    ConductanceLIF,
    HeavyBall,
    Input,
    LeakyIntegrator,
    Linear,
    MomentumLCA,
    Neurons,
)
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, Layer
from support.random_networks.campaign import Campaign

SHAPE = (3, 4, 2)
IMAGES = ImageArray(data=abs(np.random.default_rng(1).normal(size=(9, *SHAPE))))
LAYERS: tuple[Layer, ...] = (
    LCA(shape=SHAPE, threshold=0.1, tau=5.0),
    MomentumLCA(shape=SHAPE, threshold=0.1, tau=5.0),
    HeavyBall(shape=SHAPE, threshold=0.1, tau=5.0),
    FISTA(shape=SHAPE, threshold=0.1),
    LeakyIntegrator(shape=SHAPE, tau=5.0),
    ConductanceLIF(shape=SHAPE),
    Neurons(
        shape=SHAPE,
        equations="dv/dt = k - v / 4 + 0.3 * xi : unless refractory\ndg/dt = (v - g) / 3",
        spike="v > 0.2",
        reset="v = -0.1",
        refractory=1.0,
        parameters={"k": np.full(SHAPE, 0.05)},
    ),
)
CASES = [(layer, one.name) for layer in LAYERS for one in layer.variables() if one.shape == SHAPE]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("layer", "variable"), CASES, ids=[f"{layer.type} {variable}" for layer, variable in CASES]
)
def test_a_variable_is_delivered_alike_under_all_steppers(
    layer: Layer, variable: str, tmp_path: Path
) -> None:
    into = {"target": "v"} if layer.targets else {}
    network = Network(
        run=Run(batch=3, display=5, displays=3, dt=0.5),
        layers={
            "image": Input(shape=SHAPE, source=IMAGES),
            "x": layer,
            "copy": Linear(shape=SHAPE),
            "function": Neurons(shape=SHAPE, equations="s = sin(p) + 0.1 * q", currents=("p", "q")),
        },
        connections={
            "in": Identity(
                pre="image", post="x", strength=0.02 if layer.type == "conductance_lif" else 0.5, **into
            ),
            "copied": Potential(pre="x", post="copy", variable=variable),
            "seen": Potential(pre="x", post="function", variable=variable, target="p", strength=0.7),
            "others": Identity(pre="copy", post="function", target="q"),
        },
        output=Output(layers={name: LayerOutput(every=STEP) for name in ("copy", "function")}),
    )
    assert Campaign(tmp_path, seed=3, counting=False).compare(network) == []
