"""Random networks by their programs against the same networks layer by layer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from petabatch.connections import Conv, Identity, Transpose
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import FISTA, Input, Linear, Quotient, Rectified, Rescale
from petabatch.layers.timescale import TimeScale
from petabatch.probes import L0, L1, L2
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, Probe
from petabatch.variable import Border
from petabatch.weights import L2 as UnitLength
from support.networks import GivenImages, GivenWeights, images, lca_network
from support.programs import Runs, State, random_network
from support.sparse_coding import CODES, SCALES, network

some = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)
seeds, precisions = st.integers(0, 2**32), st.sampled_from(["float32", "float64"])


def runs_of(seed: int, precision: str) -> Runs:
    """Return a random network that is valid and has a program."""
    try:
        runs = Runs(in_precision(random_network(seed), precision))
    except ParamsError:
        assume(False)
    return runs


def rests(runs: Runs, state: State, step: int) -> bool:
    """Say whether FISTA compares two numbers that are 0 but for rounding."""
    layers = runs.mine.plan.graph.network.layers
    fistas = [f"layers/{name}" for name, layer in layers.items() if isinstance(layer, FISTA)]
    codes = [(state[f"{key}/A"], state[f"{key}/A_before"]) for key in fistas]
    return any(
        (abs(A[:, step % A.shape[1]] - before).max(axis=(1, 2, 3)) < 1e-5).any() for A, before in codes
    )


@some
# A row function that reads its own activity with the longest delay that is kept.
@example(seed=1163, precision="float32")
@given(seed=seeds, precision=precisions)
def test_a_step_from_any_state_is_that_of_the_layers(seed: int, precision: str) -> None:
    runs, apart = runs_of(seed, precision), {"float32": 1e-5, "float64": 1e-11}[precision]
    for step in range(1, 10):
        if rests(runs, runs.state, step - 1):
            return
        runs.synchronise()
        try:
            expected = runs.expected(step)
        except NonFiniteError:
            return
        runs.run(step - 1, step)
        for key, theirs in expected.items():
            if key.startswith("layers/"):
                largest = max(1.0, np.nanmax(abs(theirs)))
                if largest > 1e30:  # it diverges
                    return
                np.testing.assert_allclose(runs.state[key], theirs, 0, apart * largest, err_msg=key)


@some
@given(seed=seeds, precision=precisions, cuts=st.lists(st.integers(1, 13), max_size=3))
def test_bits_do_not_depend_on_where_a_run_is_cut(seed: int, precision: str, cuts: list[int]) -> None:
    whole, parts = runs_of(seed, precision), runs_of(seed, precision)
    whole.run(0, 14)
    for first, last in pairwise([0, *sorted(cuts), 14]):
        parts.run(first, last)
    for key, array in whole.state.items():
        assert array.tobytes() == parts.state[key].tobytes(), key


def in_precision(network: Network, precision: str) -> Network:
    return network.model_copy(update={"run": network.run.model_copy(update={"precision": precision})})


def in_reference(network: Network) -> Network:
    return network.model_copy(update={"run": network.run.model_copy(update={"kernel": "array"})})


def advance(runs: Runs, steps: int) -> State:
    """Make steps of both; return the state of the reference."""
    for step in range(1, steps + 1):
        expected = runs.expected(step)
    runs.run(0, steps)
    return expected


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("mode", ["extra_shared", "non_shared"])
@pytest.mark.parametrize(("precision", "apart"), [("float32", 2e-5), ("float64", 1e-12)])
def test_many_steps_of_each_code_agree(code: str, mode: str, precision: str, apart: float) -> None:
    runs = Runs(in_precision(in_reference(network(code, learn=False, mode=mode)), precision))
    for key, theirs in advance(runs, 60).items():
        np.testing.assert_allclose(runs.state[key], theirs, rtol=5 * apart, atol=apart, err_msg=key)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("code", ["lca", "heavy_ball", "ista"])
@pytest.mark.parametrize(("precision", "apart"), [("float32", 2e-5), ("float64", 1e-12)])
def test_time_scales_follow_their_energies(code: str, scale: TimeScale, precision: str, apart: float) -> None:
    given = network(code, keys={"time_scale": scale}, learn=False)
    runs = Runs(in_precision(in_reference(given), precision))
    expected = advance(runs, 60)
    assert (expected["layers/V1/time_scale"] > 0.6).all()
    for key, theirs in expected.items():
        np.testing.assert_allclose(runs.state[key], theirs, rtol=5 * apart, atol=apart, err_msg=key)


def test_what_is_measured_is_what_probes_do_and_changes_no_bit() -> None:
    probes: dict[str, Probe] = {
        "squares": L2(layer="error"),
        "sizes": L1(layer="V1"),
        "count": L0(layer="V1"),
    }
    seen, unseen = (Runs(in_reference(network(learn=False, probes=some))) for some in (probes, {}))
    for lane in seen.mine.lanes:
        lane.stepper.load_weights()
        lane.images.show(1)
        found = lane.stepper.run(0, 20, True)
        columns = {(term.layer, term.norm): n for n, term in enumerate(lane.stepper.probes.columns)}
        for name in probes:
            key = ("error" if name == "squares" else "V1", name)
            (value,) = list(lane.observer.measure(name, 20).values())[:1]
            np.testing.assert_allclose(found[19, 0, columns[key]], value, rtol=1e-12)
    unseen.run(0, 20)
    for key, array in unseen.state.items():
        assert array.tobytes() == seen.state[key].tobytes(), key


def test_products_are_those_of_the_array_kernels() -> None:
    runs = Runs(in_reference(lca_network(images(2), learn=True)))
    runs.run(0, 12)
    for lane in runs.mine.lanes:
        found, expected = {}, {}
        for into, known in ((found, lane.stepper.products), (expected, lambda *_: False)):
            lane.products.product("dictionary", 12, 0, lane.slices, known)
            into |= {key: array.copy() for key, array in lane.products.arrays["dictionary"].items()}
        largest = abs(expected["product"]).max()
        np.testing.assert_allclose(found["product"], expected["product"], rtol=0, atol=1e-5 * largest)
        np.testing.assert_array_equal(found["counts"], expected["counts"])


def pointwise(layer: Layer, delay: int = 1) -> Runs:
    """Return a layer that sees an image by itself and an image."""
    image = Input(shape=(4, 6, 3), source=GivenImages(data=images(2, shape=(4, 6, 3))))
    layers = {"image": image, "shifted": Linear(shape=image.shape, scale=0.5), "layer": layer}
    connections = {
        "a": Identity(pre="image", post="shifted"),
        "b": Identity(pre="image", post="layer"),
        "c": Identity(pre="shifted", post="layer", channel="inh", strength=0.7, delay_steps=delay),
    }
    return Runs(
        Network(run=Run(batch=2, steps=9, display=4, kernel="array"), layers=layers, connections=connections)
    )


@pytest.mark.parametrize("over", ["slice", "features"])
@pytest.mark.parametrize("method", ["range", "standard", "length", "softmax"])
def test_rescaled_layers_agree(method: str, over: str) -> None:
    layer = Rescale(shape=(4, 6, 3), method=method, over=over, low=0.5, high=2.0, mean=1.0, std=3.0)
    runs = pointwise(layer)
    expected = advance(runs, 5)["layers/layer/A"]
    np.testing.assert_allclose(runs.state["layers/layer/A"], expected, rtol=1e-5, atol=1e-5)


def test_a_quotient_agrees() -> None:
    runs = pointwise(Quotient(shape=(4, 6, 3)), delay=0)
    expected = advance(runs, 5)["layers/layer/A"]
    np.testing.assert_allclose(runs.state["layers/layer/A"], expected, rtol=1e-6)


@pytest.mark.parametrize("border", ["mirror", 0.5])
@pytest.mark.parametrize("stride", [1, 2])
def test_units_beyond_the_edge_with_patches_of_their_own_deliver_nothing_backwards(
    border: Border, stride: int
) -> None:
    fine, coarse = (6 * stride, 5 * stride, 2), (6, 5, 3)
    layers = {
        "image": Input(shape=fine, source=GivenImages(data=images(1, shape=fine))),
        "code": Linear(shape=coarse, border=border),
        "recon": Linear(shape=fine),
    }
    patch = (2 * stride + 1, 2 * stride + 2)
    weights = np.random.default_rng(3).normal(size=(1, 1, 3, *patch, 2))
    connections = {
        "back": Conv(
            pre="code", post="recon", patch=patch, mode="non_shared", init=GivenWeights(data=weights)
        ),
        "there": Transpose(pre="image", post="code", of="back"),
    }
    run = Run(batch=1, steps=9, display=4, kernel="array")
    runs = Runs(Network(run=run, layers=layers, connections=connections))
    assert not runs.program.interpreted
    assert runs.mine.plan.graph.wirings["there"].link.patches.y.margin > 0
    for key, theirs in advance(runs, 2).items():
        if key.startswith("layers/"):
            np.testing.assert_allclose(runs.state[key], theirs, 0, 1e-5 * abs(theirs).max(), err_msg=key)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("border", ["zero", "mirror", 0.5])
@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared"])
@pytest.mark.parametrize(("features", "patch", "stride"), [(20, 6, 2), (64, 3, 1), (5, 12, 2)])
def test_layers_of_many_tiles_and_chunks_agree(
    mode: str, border: Border, features: int, patch: int, stride: int
) -> None:
    fine, coarse = (20 * stride, 60 * stride, 2), (20, 60, features)
    image = Input(shape=fine, source=GivenImages(data=images(1, shape=fine)), border=border)
    layers = {
        "image": image,
        "code": Rectified(shape=coarse, border=border, threshold=0.5, transfer="soft"),
        "recon": Linear(shape=fine),
    }
    rng = np.random.default_rng(3)
    reach = patch // stride
    down = Conv(
        pre="image", post="code", patch=(reach, reach), mode="extra_shared",
        init=GivenWeights(data=rng.normal(size=(stride, stride, 2, reach, reach, features))),
        normalize=UnitLength(),
    )  # fmt: skip
    back = Conv(
        pre="code", post="recon", patch=(patch, patch), mode=mode,
        init=GivenWeights(data=rng.normal(size=(1, 1, features, patch, patch, 2))), normalize=UnitLength(),
    )  # fmt: skip
    run = Run(batch=1, steps=9, display=4, kernel="array")
    runs = Runs(Network(run=run, layers=layers, connections={"down": down, "back": back}))
    assert not runs.program.interpreted
    for key, theirs in advance(runs, 2).items():
        if key.startswith("layers/"):
            np.testing.assert_allclose(runs.state[key], theirs, 0, 1e-5 * abs(theirs).max(), err_msg=key)
