"""Random networks against the original's rules of a step, written as plain loops and not from our code.

Layers of several types in random phases and on random schedules, joined by identities, patches of random ratio,
size, channel and delay, clones and transposes; some learn. A layer sees the activity of this step of layers in
lower phases, else of the step before, each later by the delay; before step 0 there was no activity. Weights
change at the end of a step, by the activity of the pre layer, as delayed, and of the error layer; probes see
what layers then are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from networks import GivenImages, GivenWeights

from petabatch import memory
from petabatch.connections import Clone, Conv, Identity, Transpose
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

STEPS, DISPLAY, BATCH, DT = 7, 3, 2, 0.5
COARSE, FINE = (3, 4, 2), (6, 8, 3)
FIRM: Any = {"transfer": "firm", "threshold": 0.2, "width": 0.3}
History = dict[str, list[np.ndarray]]


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
    for number in range(int(rng.integers(2, 8))):
        pre, post = one_of(*names), one_of(*names[1:])
        common = {
            "pre": pre,
            "post": post,
            "delay": int(rng.integers(0, 4)),
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
                ends = {"pre": one_of(*pres), "post": one_of(*posts), "channel": "inh", "delay": one_of(0, 2)}
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


def patches(conv: Conv, pre: np.ndarray, post: tuple[int, int, int], border: Any) -> Iterator[Any]:
    """Yield for each pre unit, also beyond the edge, activity `[b, f]`, kernel, and where weights lead."""
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
            ways = [(i, j, start(y) + i, start(x) + j) for i in range(size) for j in range(size)]
            inside = [way for way in ways if 0 <= way[2] < post[0] and 0 <= way[3] < post[1]]
            yield (y, x), a, (y % fewer, x % fewer), inside


def delivered(conv: Conv, weights: np.ndarray, pre: np.ndarray, post: Any, border: Any) -> np.ndarray:
    out = np.zeros((len(pre), *post))
    for _, a, kernel, ways in patches(conv, pre, post, border):
        for i, j, y, x in ways:
            out[:, y, x] += a @ weights[kernel][:, i, j]
    return out


def transposed(conv: Conv, weights: np.ndarray, pre: np.ndarray, post: Any) -> np.ndarray:
    """Each post unit gathers the activity that its patch leads to."""
    out = np.zeros((len(pre), *post))
    for (row, column), _, kernel, ways in patches(conv, out, pre.shape[1:], "zero"):
        if 0 <= row < post[0] and 0 <= column < post[1]:
            for i, j, y, x in ways:
                out[:, row, column] += pre[:, y, x] @ weights[kernel][:, i, j].T
    return out


def products(conv: Conv, w: np.ndarray, pre: np.ndarray, error: np.ndarray, border: Any) -> list[np.ndarray]:
    """Return the summed product of activities, and how many pre units were active, behind each weight."""
    product, counts = np.zeros_like(w), np.zeros_like(w)
    for _, a, kernel, ways in patches(conv, pre, error.shape[1:], border):
        for i, j, y, x in ways:
            product[kernel][:, i, j] += a.T @ error[:, y, x]
            counts[kernel][:, i, j] += (a != 0).sum(0)[:, None]
    return [product, counts]


def updated(conv: Conv, w: dict[str, np.ndarray], fresh: np.ndarray) -> None:
    """Change the weights: the change before in its place if delayed, momentum, decay, then the length."""
    rule: Any = conv.learn
    if rule.delayed:
        fresh, w["waiting"] = w["waiting"], fresh
    w["before"] = (1 - rule.momentum) * fresh + rule.momentum * w["before"] - rule.decay * w["now"]
    w["now"] = normalised(w["now"] + w["before"])


def normalised(weights: np.ndarray) -> np.ndarray:
    return 0.5 * weights / np.sqrt((weights**2).sum((-3, -2, -1), keepdims=True))


def folded(i: int, n: int) -> int:
    i %= 2 * n
    return i if i < n else 2 * n - 1 - i


def simulated(network: Network, data: np.ndarray) -> History:
    layers = network.layers
    convs = {name: c for name, c in network.connections.items() if isinstance(c, Conv)}
    weights: Any = {}
    for name, conv in convs.items():
        given: Any = conv.init
        zeros = np.zeros_like(given.data)
        weights[name] = {"now": normalised(given.data), "before": zeros, "waiting": zeros}
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
            for via, c in network.connections.items():
                if c.post != name:
                    continue
                seen = t - c.delay - (0 if layers[c.pre].phase < layer.phase else 1)  # type: ignore[operator]
                if seen < 0:
                    pre = np.zeros((BATCH, *layers[c.pre].shape))
                else:
                    pre = now[c.pre] if seen == t else found[c.pre][seen]
                if isinstance(c, Conv):
                    pre = delivered(c, weights[via]["now"], pre, layer.shape, layers[c.pre].border)
                if isinstance(c, Clone):
                    pre = delivered(convs[c.of], weights[c.of]["now"], pre, layer.shape, "zero")
                if isinstance(c, Transpose):
                    pre = transposed(convs[c.of], weights[c.of]["now"], pre, layer.shape)
                gathered[c.channel] += c.strength * pre
            g = gathered["exc"] - gathered["inh"]
            before = found[name][t - 1]
            period = DISPLAY if layer.every.unit == "displays" else layer.every.count
            if (t - 1 - layer.offset) % period != 0:
                now[name] = before
                continue
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
        for name, c in convs.items():
            if c.learn is not None and (t - c.learn.offset) % c.learn.every.count == 0:
                rule: Any = c.learn
                teachers: list[Any] = [(c, rule.error or c.post)]
                teachers += [
                    (via, via.error)
                    for via in network.connections.values()
                    if isinstance(via, Clone) and via.of == name and via.error is not None
                ]
                product, counts = 0.0, 0.0
                for via, error in teachers:
                    past = found[via.pre]
                    pre = past[t - via.delay] if t >= via.delay else np.zeros_like(past[0])
                    more = products(c, weights[name]["now"], pre, now[error], layers[via.pre].border)
                    product, counts = product + more[0], counts + more[1]
                change = rule.rate * (product if rule.average == "sum" else product / np.maximum(counts, 1))
                updated(c, weights[name], change)
            found.setdefault(f"weights of {name}", []).append(weights[name]["now"])
    return found


def activity(layer: LCA, v: np.ndarray) -> np.ndarray:
    if layer.transfer == "soft":
        return np.maximum(v - 0.2, 0)
    return np.where(v < 0.2, 0, np.where(v < 0.5, 0.5 * (v - 0.2) / 0.3, v))


@pytest.mark.parametrize("seed", range(60, 120))
def test_random_networks_follow_the_originals_order_channels_and_delays(seed: int) -> None:
    network, data = random_network(seed)
    expected = simulated(network, data)
    done = memory.run(network, range(STEPS + 1))
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
        "statistics/deviation": a.std(-1),
        "statistics/minimum": a.min(-1),
        "statistics/maximum": a.max(-1),
        "statistics/active": (abs(a) > 0.3).sum(-1),
    }
    for name, theirs in expected.items():
        np.testing.assert_allclose(recorded[f"probes/{name}"], theirs, rtol=1e-5, atol=1e-5, err_msg=name)
