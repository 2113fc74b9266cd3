"""Dead features, how often features are active, and features pushed apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.learning import Adam, Revive
from petabatch.learning.decorrelate import decorrelate
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.sources import ImageArray
from petabatch.spec.network import ConnectionOutput, Output
from petabatch.weights import Gaussian, ImagePatches, WeightArray
from support.dead_features import DEAD, FRESH, network
from support.networks import collect, images, lca_network, simulate


def test_usage_counts_active_units_of_each_feature_over_positions_and_slices() -> None:
    done = in_memory.run(network(None), [20, 40, 60, 80])
    expected = (done.states["layers/V1/A"] != 0).sum(axis=(1, 2, 3))
    np.testing.assert_array_equal(done.recorded["connections/dictionary/usage"][1:], expected)
    assert not expected[:, DEAD].any()
    assert expected.any(axis=0).sum() == 9


def test_usage_of_weights_for_each_slice_is_counted_in_each() -> None:
    done = in_memory.run(network(None, mode="shared"), [20, 80])
    expected = (done.states["layers/V1/A"] != 0).sum(axis=(2, 3))
    np.testing.assert_array_equal(done.recorded["connections/dictionary/usage"][[1, 4]], expected)


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_dead_features_start_again_when_due_and_are_then_used(mode: str) -> None:
    revived, left = (in_memory.run(network(r, mode=mode)) for r in (FRESH, None))
    weights, without = (d.recorded["connections/dictionary/weights"] for d in (revived, left))
    living = [f for f in range(12) if f not in DEAD]
    # Two updates without activity: nothing differs before the second, then the dead ones alone.
    np.testing.assert_array_equal(weights[:2], without[:2])
    np.testing.assert_array_equal(weights[2][..., living, :, :, :], without[2][..., living, :, :, :])
    fresh, before = (w[2][..., DEAD, :, :, :].reshape(-1, 108) for w in (weights, without))
    assert (np.abs(fresh - before).max(axis=1) > 0.1).all()
    np.testing.assert_allclose(np.linalg.norm(fresh, axis=1), 1, rtol=1e-6)
    assert len(np.unique(fresh, axis=0)) == len(fresh)  # each slice with its own weights draws its own
    assert revived.recorded["connections/dictionary/usage"][3:, ..., DEAD].any()


def test_features_start_again_with_no_memory_of_their_rule() -> None:
    net = network(FRESH, displays=2)
    conv = net.connections["dictionary"].model_copy(update={"learn": Adam(error="error", rate=0.02)})
    net = net.model_copy(update={"connections": {**net.connections, "dictionary": conv}})
    state = in_memory.run(net, [40]).states
    square = state["connections/dictionary/square"][0, 0, 0, 0]
    assert not square[DEAD].any()
    assert square.reshape(12, -1).any(axis=1).sum() == 9
    assert not state["connections/dictionary/idle"].any()


def test_features_start_as_the_dictionary_did_unless_told_otherwise() -> None:
    init = ImagePatches(source=ImageArray(data=images(5)[:, 0]))
    assert np.array_equal(
        Revive(after=1).fresh(init, (1, 1, 4, 6, 6, 3), 1, "d", 5, 0, 1),
        Revive(after=1, init=init).fresh(Gaussian(), (1, 1, 4, 6, 6, 3), 1, "d", 5, 0, 1),
    )


@pytest.mark.parametrize("per_slice", [False, True])
def test_dead_features_start_again_from_a_given_array_which_stays_as_it_is(per_slice: bool) -> None:
    given = np.random.default_rng(0).normal(size=((3,) * per_slice + (1, 1, 12, 6, 6, 3)))
    before = given.copy()
    init = WeightArray(data=given, per_slice=per_slice)
    done = in_memory.run(network(Revive(after=1, init=init), mode="shared"))
    weights = done.recorded["connections/dictionary/weights"][1].reshape(3, 12, 108)[:, DEAD]
    fresh = np.broadcast_to(given.reshape(-1, 12, 108), (3, 12, 108))[:, DEAD]
    expected = fresh / np.linalg.norm(fresh, axis=2, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
def test_restarts_have_the_same_bits_on_threads_and_after_resume(mode: str, reduce: Any) -> None:
    net = network(FRESH, mode=mode, reduce=reduce)
    whole, recorded = simulate(net)
    _, threaded = simulate(net, threads=3)
    for path, values in recorded.items():
        np.testing.assert_array_equal(threaded[path], values, err_msg=path)
    first = Engine(schedule(build(net)), Serial(), 1)
    first.start()
    next(step for step in drive(first) if step == 20)
    first.collect()
    saved = {key: array.copy() for key, array in first.state.saved().items()}
    second = Engine(schedule(build(net)), Serial(), 1)
    second.resume(20, saved)
    later = collect(second)
    for path, values in later.items():
        np.testing.assert_array_equal(values, recorded[path][-len(values) :], err_msg=path)
    whole.collect()
    second.collect()
    for key, array in whole.state.saved().items():
        np.testing.assert_array_equal(second.state.arrays[key], array, err_msg=key)


def test_counting_usage_changes_no_bit() -> None:
    seen = network(None)
    plain = Output(connections={"dictionary": ConnectionOutput()})
    key = "connections/dictionary/weights"
    unseen = in_memory.run(seen.model_copy(update={"output": plain})).recorded[key]
    np.testing.assert_array_equal(in_memory.run(seen).recorded[key], unseen)


def test_decorrelation_is_descent_on_the_squared_products_of_pairs() -> None:
    weights = np.random.default_rng(0).normal(size=(2, 2, 1, 4, 3, 2, 2))

    def cost(flat: np.ndarray) -> float:
        units = flat.reshape(4, 4, 12)
        gram = units @ units.swapaxes(1, 2)
        return float((gram**2).sum() - (np.diagonal(gram, axis1=1, axis2=2) ** 2).sum()) / 4

    slope = np.empty(weights.size)
    for index in range(weights.size):
        there, back = weights.ravel().copy(), weights.ravel().copy()
        there[index] += 1e-5
        back[index] -= 1e-5
        slope[index] = (cost(there) - cost(back)) / 2e-5
    changed = weights.copy()
    decorrelate(changed, 0.1, np.matmul)
    np.testing.assert_allclose(changed - weights, -0.1 * slope.reshape(weights.shape), atol=1e-7)


def test_decorrelated_dictionaries_have_smaller_products() -> None:
    def largest(rate: float) -> float:
        net = lca_network(images(2, 1), features=24, displays=6)
        conv = net.connections["dictionary"].model_copy(update={"decorrelate": rate})
        net = net.model_copy(update={"connections": {**net.connections, "dictionary": conv}})
        units = in_memory.run(net).recorded["connections/dictionary/weights"][-1].reshape(24, -1)
        return float(np.abs(units @ units.T - np.eye(24)).max())

    assert largest(0.1) < 0.7 * largest(0.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "non_shared", "revive": FRESH}, "more than one patch"),
        ({"learn": None, "revive": FRESH}, "do not learn"),
        ({"learn": None, "decorrelate": 0.1}, "do not learn"),
        ({"learn": None}, "usage"),
    ],
)
def test_what_cannot_be_revived_or_counted_is_refused(changes: dict[str, Any], words: str) -> None:
    net = network(None)
    conv = net.connections["dictionary"].model_copy(update=changes)
    with pytest.raises(ParamsError, match=words):
        build(net.model_copy(update={"connections": {**net.connections, "dictionary": conv}}))
