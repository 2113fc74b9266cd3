"""Synapses that learn at spikes: against plain loops, compiled, in batches, on ranks, resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Sparse
from petabatch.layers import Neurons, SpikeTimes
from petabatch.learning import SynapticEquations
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.weights import Uniform
from support.synapse_model import Found, Synapse, simulate

DT, STEPS = 0.5, 60
PRE, POST = (2, 3, 2), (3, 1, 4)
PAIR: Mapping[str, Any] = {
    "on_pre": "x += 1; w -= 0.03 * y", "on_post": "y += 1; w += a * x", "traces": {"x": 8.0, "y": 5.0},
    "parameters": {"a": 0.02}, "bounds": (0.0, 1.0),
}  # fmt: skip
DEPENDENT: Mapping[str, Any] = {
    "on_pre": "x = 1; w -= 0.2 * w * y", "on_post": "y += 1 - 0.3 * y; w += 0.1 * (1 - w) * x",
    "traces": {"x": 8.0, "y": 5.0},
}  # fmt: skip
TRIPLET: Mapping[str, Any] = {
    "on_pre": "w -= y1 * (0.02 + 0.01 * x2); x1 += 1; x2 += 1",
    "on_post": "w += x1 * (0.01 + 0.02 * y2); y1 += 1\ny2 += 1",
    "traces": {"x1": 8.0, "x2": 30.0, "y1": 5.0, "y2": 20.0}, "bounds": (0.0, 1.0),
}  # fmt: skip
PLASTIC: Mapping[str, Any] = {
    "on_pre": "u += 0.4 * (1 - u); delivered = w * u * (1 - r); r += u * (1 - r)",
    "traces": {"u": 20.0, "r": 15.0},
}  # fmt: skip
ELIGIBLE: Mapping[str, Any] = {
    "on_pre": "x += 1; c -= 0.5 * y; w += 0.01 * c + last * 0.001; last = t",
    "on_post": "y += 1; c += x; w += 0.01 * c; n += 1",
    "traces": {"x": 8.0, "y": 5.0, "c": 40.0}, "variables": ("last", "n"), "bounds": (-1.0, 2.0),
}  # fmt: skip
RULES = {
    "pair": PAIR, "dependent": DEPENDENT, "triplet": TRIPLET, "plastic": PLASTIC, "eligible": ELIGIBLE
}  # fmt: skip


def network(
    rule: Mapping[str, Any], steps: int = STEPS, seed: int = 1, batch: int = 2, **keys: Any
) -> Network:
    """Return given spikes that reach units which spike alone; `s` sums up what arrives."""
    run = {"batch": batch, "display": 8, "dt": DT, **keys.pop("run", {})}
    rng = np.random.default_rng(seed)
    spikes = np.argwhere(rng.random((STEPS, int(np.prod(PRE)), 2)) < 0.12).astype(float)
    spikes[:, 0] *= DT
    units = Neurons(
        shape=POST, equations="dv/dt = (1.5 - v) / 3\nds/dt = 0 * s", spike="v > 1", reset="v = 0",
        start={"v": Uniform(per_slice=True)},
    )  # fmt: skip
    keys = {"probability": 0.5, "init": Uniform(low=0.2, high=0.8), **keys}
    joined = Sparse(pre="pre", post="post", target="s", mode="non_shared", learn=learning(rule), **keys)
    names = joined.learned
    return Network(
        run=Run(steps=steps, seed=seed, **run),
        layers={"pre": SpikeTimes(shape=PRE, spikes=spikes), "post": units},
        connections={"c": joined},
        output=Output(
            layers={
                "pre": LayerOutput(every=1, variables=("A",)),
                "post": LayerOutput(every=1, variables=("A", "s")),
            },
            connections={"c": ConnectionOutput(every=1, variables=("weights", *names))},
        ),
    )


def learning(rule: Mapping[str, Any]) -> SynapticEquations:
    return SynapticEquations(**rule)


def expected(net: Network, rule: Mapping[str, Any], recorded: Mapping[str, Any], lane: int) -> Found:
    """Return what the plain loop makes of the spikes that were recorded."""
    synapses = build(net).synapses["c"]
    pre = np.repeat(np.arange(synapses.ends.pre), np.diff(synapses.starts))
    delays = synapses.first.delays
    weights = np.asarray(recorded["connections/c/weights"])[0, lane]
    several = [
        Synapse(int(i), int(j), float(w), 0 if delays is None else int(delays[k]))
        for k, (i, j, w) in enumerate(zip(pre, synapses.targets, weights, strict=True))
    ]
    spikes = [
        np.asarray(recorded[f"layers/{name}/A"])[:, lane].reshape(STEPS, -1) for name in ("pre", "post")
    ]
    return simulate(rule, several, *spikes, DT, net.connections["c"].delay_steps)


def assert_as_expected(net: Network, rule: Mapping[str, Any], tolerance: float) -> None:
    recorded = in_memory.run(net).recorded
    weights = np.asarray(recorded["connections/c/weights"])
    arrived = np.asarray(recorded["layers/post/s"])
    for lane in range(net.batch):
        found = expected(net, rule, recorded, lane)
        np.testing.assert_allclose(weights[1:, lane], found.weights, rtol=tolerance, atol=tolerance)
        s = np.concatenate([np.zeros((1, found.arrives.shape[1])), np.cumsum(found.arrives, axis=0)[:-1]])
        np.testing.assert_allclose(arrived[:, lane].reshape(STEPS, -1), s, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("keys", [{}, {"delays": Uniform(low=0.0, high=4.0), "delay_steps": 1}])
@pytest.mark.parametrize("name", RULES)
def test_synapses_change_as_in_a_plain_loop(name: str, keys: dict[str, Any]) -> None:
    exact = network(RULES[name], **keys, run={"precision": "float64"})
    assert schedule(build(exact)).method.by_layers
    assert_as_expected(exact, RULES[name], 1e-11)
    compiled = network(RULES[name], **keys)
    method = schedule(build(compiled)).method
    assert method.stepper == "program"
    assert not method.program.interpreted
    assert_as_expected(compiled, RULES[name], 2e-5)
