"""Random networks against PetaVision's rules of a step in plain loops (`step_model`).

Layers of several types in random phases and on random schedules, joined by identities, patches of random
ratio, size, channel and delay, clones and transposes; some learn. Probes see layers at the end of a step.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Background, Clone, Conv, Identity, Largest, Pool, Transpose
from petabatch.layers import (
    LCA,
    Constant,
    Input,
    LeakyIntegrator,
    Linear,
    MomentumLCA,
    Product,
    Rectified,
    Squared,
)
from petabatch.learning import Hebbian
from petabatch.probes import L0, L1, L2, Statistics, Sum
from petabatch.probes.cost import Cost
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Connection, Layer, Probe
from petabatch.spec.schedule import Every
from petabatch.weights import L2 as UnitLength
from support.networks import GivenImages, GivenWeights
from support.step_model import BATCH, DISPLAY, DT, STEPS, History, simulated

COARSE, FINE = (3, 4, 2), (6, 8, 3)
FIRM: Any = {"transfer": "firm", "threshold": 0.2, "width": 0.3}


def random_network(seed: int) -> tuple[Network, np.ndarray]:
    rng = np.random.default_rng(seed)

    def one_of(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    data = rng.normal(size=(BATCH, 3, *FINE)).astype(np.float32)
    layers: dict[str, Layer] = {"image": Input(shape=FINE, source=GivenImages(data=data), phase=0)}
    for number in range(int(rng.integers(2, 6))):
        kind = one_of("linear", "rectified", "leaky", "product", "squared", "lca", "momentum", "constant")
        common: Any = {
            "shape": one_of(COARSE, FINE),
            "phase": int(rng.integers(4)),
            "border": one_of("zero", "mirror", 0.5),
            "every": one_of(Every(1), Every(1), Every(2), Every(1, "displays")),
            "offset": int(rng.integers(-1, 2)),
        }
        makers: dict[str, Any] = {
            "linear": lambda c: Linear(**c, scale=0.7),
            "rectified": lambda c: Rectified(**c, threshold=0.1, transfer="soft", maximum=0.8),
            "leaky": lambda c: LeakyIntegrator(**c, tau=2.0),
            "product": lambda c: Product(**c),
            "squared": lambda c: Squared(**c),
            "lca": lambda c: LCA(**c, tau=3.0, threshold=0.2, initial=0.4, self_interact=False),
            "momentum": lambda c: MomentumLCA(**c, **FIRM, tau=3.0, rate=0.5, initial=0.3),
            "constant": lambda c: Constant(**c, value=0.6),
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the momentum, which is what is tested here
            layers[f"{kind}{number}"] = makers[kind](common)
    connections: dict[str, Connection] = {}
    names = list(layers)
    for number, pre in enumerate(one_of(*names) for _ in range(3)):
        ny, nx, nf = layers[pre].shape
        copies, method = int(rng.integers(1, 3)), one_of("max", "sum", "average")
        shape, connection = one_of(
            ((3, 4, nf), Pool(pre=pre, post="", method=method, window=one_of(None, (2, 2), (3, 2)))),
            ((6, 8, nf), Pool(pre=pre, post="", method=method, window=one_of(None, (2, 3), (3, 3)))),
            ((ny, nx, 1), Largest(pre=pre, post="")),
            ((ny, nx, copies * (nf + 1)), Background(pre=pre, post="", copies=copies)),
        )
        name, border = f"of_{number}", one_of("zero", "mirror", 0.5)
        layers[name] = Linear(shape=shape, scale=0.7, phase=int(rng.integers(4)), border=border)
        update = {"post": name, "delay": int(rng.integers(0, 3)), "strength": one_of(1.0, -0.4)}
        connections[name] = connection.model_copy(update=update)
    for number in range(int(rng.integers(2, 8))):
        pre, post = one_of(*names), one_of(*names[1:])
        common = {
            "pre": pre,
            "post": post,
            "delay_steps": int(rng.integers(0, 4)),
            "strength": one_of(1.0, -0.4),
            "channel": one_of("exc", "inh"),
        }
        ends = layers[pre].shape, layers[post].shape
        if ends[0] == ends[1] and one_of(True, False):
            connections[f"c{number}"] = Identity(**common)
            continue
        p = one_of(1, 3) if ends != (COARSE, FINE) else one_of(2, 4)
        p = p if ends != (FINE, COARSE) else one_of(1, 2)
        kernels = (2, 2) if ends == (FINE, COARSE) else (1, 1)
        weights = 0.2 * rng.normal(size=(*kernels, ends[0][2], p, p, ends[1][2]))
        rule = Hebbian(
            rate=0.1,
            error=one_of(None, *(n for n in names if layers[n].shape == ends[1])),
            average=one_of("active", "sum"),
            momentum=one_of(0.0, 0.3),
            decay=0.02,
            delayed=one_of(True, False),
            every=Every(int(rng.integers(1, 4))),
            offset=int(rng.integers(-1, 2)),
        )
        connections[f"c{number}"] = Conv(
            **common,
            patch=(p, p),
            init=GivenWeights(data=weights),
            normalize=UnitLength(strength=0.5),
            learn=one_of(None, rule),
        )
    for name, conv in list(connections.items()):
        if not isinstance(conv, Conv):
            continue
        fitting = {
            "clone": [layers[conv.pre].shape, layers[conv.post].shape],
            "transposed": [layers[conv.post].shape, layers[conv.pre].shape],
        }
        for kind, (first, last) in fitting.items():
            pres = [n for n in names if layers[n].shape == first and layers[n].border == "zero"]
            posts = [n for n in names[1:] if layers[n].shape == last]
            if pres and posts and one_of(True, False):
                ends = {
                    "pre": one_of(*pres),
                    "post": one_of(*posts),
                    "channel": "inh",
                    "delay_steps": one_of(0, 2),
                }
                if kind == "clone":
                    ends["error"] = ends["post"] if conv.learn is not None and one_of(True, False) else None
                connections[f"{kind}_{name}"] = (Clone if kind == "clone" else Transpose)(**ends, of=name)
    seen = one_of(*names)
    probes: dict[str, Probe] = {
        "l1": L1(layer=seen),
        "l2": L2(layer=seen),
        "l0": L0(layer=seen, above=0.3),
        "sum": Sum(
            terms={
                "a": Cost(layer=seen, norm="firm", corner=0.7, coefficient=2.0),
                "b": Cost(layer=names[0], coefficient=0.5),
            }
        ),
        "statistics": Statistics(layer=seen, above=0.3),
    }
    run = Run(batch=BATCH, steps=STEPS, display=DISPLAY, dt=DT, precision="float64")
    return Network(run=run, layers=layers, connections=connections, probes=probes), data


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(60, 120))
def test_random_networks_follow_the_originals_order_channels_and_delays(seed: int) -> None:
    network, data = random_network(seed)
    expected = simulated(network, data)
    done = in_memory.run(network, range(STEPS + 1))
    for name in network.layers:
        theirs = np.stack(expected[name])
        np.testing.assert_allclose(
            done.states[f"layers/{name}/A"], theirs, rtol=1e-5, atol=1e-6, err_msg=name
        )
    for name, connection in network.connections.items():
        if isinstance(connection, Conv):
            mine = done.states[f"connections/{name}/weights"][1:, 0]
            np.testing.assert_allclose(
                mine, expected[f"weights of {name}"], rtol=1e-5, atol=1e-7, err_msg=name
            )
    check_probes(network, expected, done.recorded)


def check_probes(network: Network, layers: History, recorded: Any) -> None:
    probe: Any = network.probes["l1"]
    a = np.stack(layers[probe.layer][1:]).reshape(STEPS, BATCH, -1)
    image = np.stack(layers["image"][1:]).reshape(STEPS, BATCH, -1)
    firm = np.where(abs(a) < 0.7, abs(a) * (1 - abs(a) / 1.4), 0.35).sum(-1)
    expected = {
        "l1/sum": abs(a).sum(-1),
        "l2/squares": (a**2).sum(-1),
        "l0/active": (abs(a) > 0.3).sum(-1),
        "l0/fraction": (abs(a) > 0.3).mean(-1),
        "sum/total": 2 * firm + 0.5 * (image**2).sum(-1),
        "statistics/total": a.sum(-1),
        "statistics/mean": a.mean(-1),
        "statistics/std": a.std(-1),
        "statistics/minimum": a.min(-1),
        "statistics/maximum": a.max(-1),
        "statistics/active": (abs(a) > 0.3).sum(-1),
    }
    for name, theirs in expected.items():
        np.testing.assert_allclose(recorded[f"probes/{name}"], theirs, rtol=1e-5, atol=1e-5, err_msg=name)
