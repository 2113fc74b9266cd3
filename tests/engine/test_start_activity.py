"""The activity in step 0 of layers without a potential."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.errors import ParamsError
from petabatch.layers import FISTA, LCA, Constant, Linear
from petabatch.network.build import build
from petabatch.spec.network import Network, Run


@pytest.mark.parametrize("kernel", ["array", "auto"])
def test_it_is_seen_in_step_1(kernel: str) -> None:
    start = {"A": {"type": "uniform", "low": 1.0, "high": 2.0, "per_slice": True}}
    net = Network(
        run=Run(batch=2, steps=2, kernel=kernel),
        layers={
            "a": Linear(shape=(2, 2, 1), start=start),
            "ones": Constant(shape=(2, 2, 1), value=5.0, start=start),
            "b": Linear(shape=(2, 2, 1)),
        },
        connections={
            "a_to_b": Identity(pre="a", post="b", feedback=True),
            "ones_to_b": Identity(pre="ones", post="b"),
        },
    )
    found = in_memory.run(net, [0, 1, 2]).states
    a, ones, b = (found[f"layers/{name}/A"] for name in ("a", "ones", "b"))
    assert 1 <= a[0].min() < a[0].max() <= 2
    assert (a[0, 0] != a[0, 1]).any()
    np.testing.assert_array_equal(a[1:], 0)
    np.testing.assert_array_equal(ones[1], ones[0])
    np.testing.assert_array_equal(ones[2], ones[0])
    np.testing.assert_allclose(b[1], a[0] + ones[0], rtol=1e-6)
    np.testing.assert_array_equal(b[2], ones[0])


@pytest.mark.parametrize("kernel", ["array", "auto"])
def test_fista_goes_on_from_it(kernel: str) -> None:
    code = FISTA(shape=(2, 2, 1), threshold=0.0, start={"A": {"type": "constant", "value": 0.5}})
    net = Network(run=Run(steps=2, kernel=kernel), layers={"code": code})
    np.testing.assert_array_equal(in_memory.run(net, [0, 1, 2]).states["layers/code/A"], 0.5)


def test_layers_with_a_potential_start_from_it() -> None:
    layer = LCA(shape=(2, 2, 1), start={"A": {"type": "constant", "value": 1.0}})
    with pytest.raises(ParamsError, match="there is no state variable"):
        build(Network(run=Run(steps=1), layers={"a": layer}))
