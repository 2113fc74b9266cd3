"""The same weights as Brian2's, which `tests/support/brian_synapses.py` has computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Sparse
from petabatch.layers import SpikeTimes
from petabatch.learning import SynapticEquations
from petabatch.spec.network import Network, Run
from support.brian_synapses import DT, RULES, STEPS, UNITS, given

GIVEN = Path(__file__).parents[1] / "data" / "brian_synapses.npz"
"""Of Brian2 2.9.0."""


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_weights_of_a_thousand_synapses_are_those_of_brian(name: str, delayed: bool) -> None:
    what, rule = given(), RULES[name]
    layers = {
        end: SpikeTimes(shape=(1, 1, units), spikes=spikes * [DT, 1.0])
        for end, units, spikes in zip(("pre", "post"), UNITS, what.spikes, strict=True)
    }
    edges = (
        (what.pre, what.post, what.weights, what.delays * DT)
        if delayed
        else (what.pre, what.post, what.weights)
    )
    joined = Sparse(
        pre="pre", post="post", channel="none", mode="non_shared", matrix=edges,
        learn=SynapticEquations(**rule._asdict()),
    )  # fmt: skip
    run = Run(steps=STEPS, dt=DT, precision="float64")
    net = Network(run=run, layers=layers, connections={"c": joined})
    found = in_memory.run(net).end.arrays["connections/c/weights"][0]
    with np.load(GIVEN) as theirs:
        expected = theirs[f"{name} {'delayed' if delayed else 'at once'}"]
    assert np.abs(expected - what.weights).mean() > 0.03
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
