"""Random networks against the original's rules of a step, written as plain loops and not from our code.

Layers of several types in random phases, joined by identities and patches of random ratio, size, channel and
delay. A layer sees the activity of this step of layers in lower phases, else of the step before, each
later by the delay; before step 0 there was no activity.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import GivenImages, GivenWeights

from petabatch import memory
from petabatch.connections import Conv, Identity
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
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Connection, Layer

STEPS, DISPLAY, BATCH, DT = 7, 3, 2, 0.5
COARSE, FINE = (3, 4, 2), (6, 8, 3)
FIRM: Any = {"transfer": "firm", "threshold": 0.2, "width": 0.3}
History = dict[str, list[np.ndarray]]


@st.composite
def networks(draw: st.DrawFn) -> tuple[Network, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    data = rng.normal(size=(BATCH, 3, *FINE)).astype(np.float32)
    phase, border = st.integers(0, 3), st.sampled_from(["zero", "mirror", 0.5])
    layers: dict[str, Layer] = {"image": Input(shape=FINE, source=GivenImages(data=data), phase=0)}
    for number in range(draw(st.integers(2, 5))):
        kind = draw(
            st.sampled_from(
                ["linear", "rectified", "leaky", "product", "squared", "lca", "momentum", "constant"]
            )
        )
        common: Any = {
            "shape": draw(st.sampled_from([COARSE, FINE])),
            "phase": draw(phase),
            "border": draw(border),
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
    for number in range(draw(st.integers(2, 7))):
        pre, post = draw(st.sampled_from(names)), draw(st.sampled_from(names[1:]))
        common = {
            "pre": pre,
            "post": post,
            "delay": draw(st.integers(0, 3)),
            "strength": draw(st.sampled_from([1.0, -0.4])),
            "channel": draw(st.sampled_from(["exc", "inh"])),
        }
        ends = layers[pre].shape, layers[post].shape
        if ends[0] == ends[1] and draw(st.booleans()):
            connections[f"c{number}"] = Identity(**common)
            continue
        p = draw(st.sampled_from([1, 3])) if ends != (COARSE, FINE) else draw(st.sampled_from([2, 4]))
        p = p if ends != (FINE, COARSE) else draw(st.sampled_from([1, 2]))
        kernels = (2, 2) if ends == (FINE, COARSE) else (1, 1)
        weights = 0.2 * rng.normal(size=(*kernels, ends[0][2], p, p, ends[1][2]))
        connections[f"c{number}"] = Conv(**common, patch=(p, p), init=GivenWeights(data=weights))
    return Network(run=Run(batch=BATCH, steps=STEPS, display=DISPLAY, dt=DT, precision="float64"),
                   layers=layers, connections=connections), data  # fmt: skip


def delivered(
    conv: Conv, weights: np.ndarray, pre: np.ndarray, post: tuple[int, int, int], border: Any
) -> np.ndarray:
    """Every unit of the pre layer, and of its border, adds its patch, cut at the edge of the post layer."""
    out = np.zeros((len(pre), *post))
    (ny, nx), size = pre.shape[1:3], conv.patch[0]
    more, fewer = max(1, post[0] // ny), max(1, ny // post[0])
    reach = size * fewer

    def start(i: int) -> int:
        return (
            math.floor((i - fewer / 2 * (size - 1)) / fewer) if fewer > 1 else i * more - (size - more) // 2
        )

    for y in range(-reach, ny + reach):
        for x in range(-reach, nx + reach):
            if 0 <= y < ny and 0 <= x < nx:
                a = pre[:, y, x]
            elif border == "mirror":
                a = pre[:, folded(y, ny), folded(x, nx)]
            else:
                a = np.full((len(pre), pre.shape[3]), 0.0 if border == "zero" else border)
            patch = np.einsum("bf,fyxc->byxc", a, weights[y % fewer, x % fewer])
            for i in range(size):
                for j in range(size):
                    if 0 <= start(y) + i < post[0] and 0 <= start(x) + j < post[1]:
                        out[:, start(y) + i, start(x) + j] += patch[:, i, j]
    return out


def folded(i: int, n: int) -> int:
    i %= 2 * n
    return i if i < n else 2 * n - 1 - i


def simulated(network: Network, data: np.ndarray) -> History:
    layers = network.layers
    e = math.exp(-DT / 3.0)
    found: History = {name: [np.zeros((BATCH, *layer.shape))] for name, layer in layers.items()}
    found["image"][0] = data[:, 0].astype(float)
    potential: dict[str, np.ndarray] = {}
    pull = {name: np.zeros((BATCH, *layer.shape)) for name, layer in layers.items()}
    for name, layer in layers.items():
        if isinstance(layer, Constant):
            found[name][0] += 0.6
        if isinstance(layer, LCA):
            potential[name] = np.full((BATCH, *layer.shape), layer.initial)
            found[name][0] = activity(layer, potential[name])
    for t in range(1, STEPS + 1):
        now = {"image": data[:, ((t - 1) // DISPLAY) % 3].astype(float)}
        for name in sorted(layers, key=lambda n: layers[n].phase or 0):
            layer = layers[name]
            if name == "image":
                continue
            gathered = {"exc": np.zeros((BATCH, *layer.shape)), "inh": np.zeros((BATCH, *layer.shape))}
            for c in network.connections.values():
                if c.post != name:
                    continue
                seen = t - c.delay - (0 if layers[c.pre].phase < layer.phase else 1)  # type: ignore[operator]
                if seen < 0:
                    pre = np.zeros((BATCH, *layers[c.pre].shape))
                else:
                    pre = now[c.pre] if seen == t else found[c.pre][seen]
                if isinstance(c, Conv):
                    weights: Any = c.init.data  # type: ignore[attr-defined]
                    pre = delivered(c, weights, pre, layer.shape, layers[c.pre].border)
                gathered[c.channel] += c.strength * pre
            g = gathered["exc"] - gathered["inh"]
            before = found[name][t - 1]
            match layer:
                case MomentumLCA():
                    drive = (1 - e) * (g + before)
                    potential[name] = e * potential[name] + drive + layer.rate * pull[name]
                    pull[name], a = drive, activity(layer, potential[name])
                case LCA():
                    potential[name] = e * potential[name] + (1 - e) * g
                    a = activity(layer, potential[name])
                case Linear():
                    a = 0.7 * g
                case Rectified():
                    a = np.minimum(np.maximum(g - 0.1, 0), 0.8)
                case LeakyIntegrator():
                    a = math.exp(-DT / 2.0) * before + g
                case Product():
                    a = gathered["exc"] * gathered["inh"]
                case Squared():
                    a = g * g
                case _:
                    a = before
            now[name] = a
        for name in layers:
            found[name].append(now[name])
    return found


def activity(layer: LCA, v: np.ndarray) -> np.ndarray:
    if layer.transfer == "soft":
        return np.maximum(v - 0.2, 0)
    return np.where(v < 0.2, 0, np.where(v < 0.5, 0.5 * (v - 0.2) / 0.3, v))


@given(networks())
@settings(max_examples=40, deadline=None)
def test_random_networks_follow_the_originals_order_channels_and_delays(
    case: tuple[Network, np.ndarray],
) -> None:
    network, data = case
    expected = simulated(network, data)
    states = memory.run(network, range(STEPS + 1)).states
    for name in network.layers:
        theirs = np.stack(expected[name])
        np.testing.assert_allclose(states[f"layers/{name}/A"], theirs, rtol=1e-5, atol=1e-6, err_msg=name)
