"""What must hold for every network: slices, threads, weight modes, observation, resume."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.schedule import Every
from petabatch.weights import Gaussian
from support.networks import assert_same, collect, images, lca_network, simulate


@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared", "extra_non_shared"])
def test_a_batch_of_four_equals_four_single_runs(mode: str) -> None:
    data = images(4)
    per_slice = mode in ("shared", "non_shared")  # else one set of weights ties the slices together
    _, together = simulate(lca_network(data, mode=mode, learn=per_slice))
    for number in range(4):
        _, alone = simulate(lca_network(data[number : number + 1], mode=mode, learn=per_slice))
        for path, values in alone.items():
            common = path == "connections/dictionary/weights" and not per_slice
            mine = together[path] if common else together[path][:, number : number + 1]
            np.testing.assert_array_equal(values, mine, err_msg=path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared", "extra_non_shared"])
@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_threads_change_no_bit(mode: str, kernel: str) -> None:
    network = lca_network(images(5), mode=mode, kernel=kernel)
    _, one = simulate(network, threads=1)
    _, three = simulate(network, threads=3)
    assert_same(three, one)


@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared", "extra_non_shared"])
@pytest.mark.parametrize("stop", [20, 40])
def test_resumed_run_equals_uninterrupted_one(mode: str, stop: int) -> None:
    network = lca_network(images(3), mode=mode)
    whole, recorded = simulate(network)
    first = Engine(schedule(build(network)), Serial(), 1)
    first.start()
    for step in drive(first):
        if step == stop:
            break
    saved = {key: array.copy() for key, array in first.state.saved().items()}
    second = Engine(schedule(build(network)), Serial(), 1)
    second.resume(stop, saved)
    later = collect(second)
    for key, array in whole.state.saved().items():
        np.testing.assert_array_equal(second.state.arrays[key], array, err_msg=key)
    for path, values in later.items():
        np.testing.assert_array_equal(values, recorded[path][-len(values) :], err_msg=path)


def test_observing_changes_no_bit() -> None:
    data = images(2)
    seen, _ = simulate(lca_network(data, record=Every(1)))
    unseen, _ = simulate(lca_network(data).model_copy(update={"probes": {}}))
    for key, array in unseen.state.saved().items():
        np.testing.assert_array_equal(seen.state.arrays[key], array, err_msg=key)


def test_non_shared_weights_that_are_equal_act_as_shared_ones() -> None:
    _, shared = simulate(lca_network(images(2), mode="shared", learn=False))
    _, own = simulate(lca_network(images(2), mode="non_shared", learn=False))
    np.testing.assert_allclose(own["layers/V1/V"], shared["layers/V1/V"], atol=2e-6)


def test_shared_with_equal_slices_learns_as_extra_shared() -> None:
    data = np.repeat(images(1), 3, axis=0)
    _, shared = simulate(lca_network(data, mode="shared"))
    _, extra = simulate(lca_network(data, mode="extra_shared"))
    for number in range(3):
        np.testing.assert_allclose(
            shared["connections/dictionary/weights"][:, number],
            extra["connections/dictionary/weights"],
            atol=1e-6,
        )


def test_learning_lowers_the_energy() -> None:
    data = images(4, items=1)
    _, found = simulate(lca_network(data, displays=12, momentum=0.0))
    ends = found["probes/energy/total"][19::20].mean(axis=1)
    assert ends[-1] < 0.9 * ends[0]


def test_probes_measure_what_numpy_finds_in_the_recorded_layers() -> None:
    _, found = simulate(lca_network(images(2)))
    code: Any = found["layers/V1/A"]
    np.testing.assert_allclose(
        found["probes/energy/sparsity"][19::20],
        0.4 * np.abs(code).sum(axis=(2, 3, 4), dtype=float),
        rtol=1e-12,
    )
    np.testing.assert_array_equal(found["probes/active/active"], (code != 0).sum(axis=(2, 3, 4)))


def _resumed(network: Network, stop: int) -> Engine:
    """Return an engine at the end of a run that was stopped, and resumed by another one."""
    first = Engine(schedule(build(network)), Serial(), 1)
    first.start()
    for step in drive(first):
        if step == stop:
            break
    first.collect()
    second = Engine(schedule(build(network)), Serial(), 1)
    second.resume(stop, {key: array.copy() for key, array in first.state.saved().items()})
    collect(second)
    return second


@pytest.mark.parametrize("stop", [20, 40])
def test_overlapped_updates_are_exact_ones_that_come_one_update_late(stop: int) -> None:
    network = lca_network(images(3), reduce="overlapped")
    whole, recorded = simulate(network)
    _, late = simulate(_with_rule(lca_network(images(3)), delayed=True))
    np.testing.assert_array_equal(
        recorded["connections/dictionary/weights"], late["connections/dictionary/weights"]
    )
    second = _resumed(network, stop)
    np.testing.assert_array_equal(
        second.state.arrays["connections/dictionary/weights"],
        whole.state.arrays["connections/dictionary/weights"],
    )


@pytest.mark.parametrize("stop", [20, 40])
def test_products_that_wait_for_further_updates_go_on_in_a_resumed_run(stop: int) -> None:
    network = _with_rule(lca_network(images(3)), accumulate=2)
    whole, recorded = simulate(network)
    weights = recorded["connections/dictionary/weights"]
    changes = [np.abs(b - a).max() > 1e-6 for a, b in pairwise(weights)]
    assert changes == [False, True] * (len(weights) // 2)  # but for the rounding of their normalisation
    second = _resumed(network, stop)
    for key, array in whole.state.arrays.items():
        np.testing.assert_array_equal(second.state.arrays[key], array)


@pytest.mark.parametrize("arrives", ["at once", "when it is waited for"])
def test_an_overlapped_update_is_applied_at_the_next_one_whenever_its_sums_arrive(arrives: str) -> None:
    network = lca_network(images(3), reduce="overlapped")
    engine = Engine(schedule(build(network)), Serial(), 1)
    reduction, asked = engine.updates.reduction, []
    now = reduction.start

    def start(*keys: Any) -> Any:
        pending = now(*keys)
        test = pending.test

        def told() -> bool:
            asked.append(arrives == "at once" and test())
            return asked[-1]

        pending.test = told  # type: ignore[method-assign]
        if arrives == "at once":
            assert pending.test()
        return pending

    reduction.start = start
    engine.start()
    weights = []
    for step in drive(engine):
        if step % 20 == 0:
            weights.append(engine.state.arrays["connections/dictionary/weights"].copy())
            engine.updates.reduction.poll()
    _, late = simulate(_with_rule(lca_network(images(3)), delayed=True))
    expected = late["connections/dictionary/weights"][1:]
    np.testing.assert_array_equal(np.stack(weights).reshape(expected.shape), expected)
    assert set(asked) == {arrives == "at once"}


class _Messages(Serial):
    """A rank's messages, which arrive at once, or when they are waited for."""

    def __init__(self, early: bool) -> None:
        super().__init__()
        self.early, self.sent = early, list[str]()

    def start_max(self, array: np.ndarray) -> Any:
        return self._send("max", array)

    def start_sum(self, array: np.ndarray) -> Any:
        return self._send("sum", array)

    def _send(self, kind: str, array: np.ndarray) -> Any:
        self.sent.append(f"{kind} of {array.size}")
        return SimpleNamespace(test=lambda: self.early, wait=lambda: None)


def test_all_ranks_send_messages_of_several_overlapped_sums_in_one_order() -> None:
    network = lca_network(images(3), reduce="overlapped")
    dictionary: Any = network.connections["dictionary"]
    other = dictionary.model_copy(
        update={
            "patch": (4, 4),
            "init": Gaussian(),
            "learn": dictionary.learn.model_copy(update={"offset": 5}),
        }
    )
    network = network.model_copy(update={"connections": {**network.connections, "other": other}})
    sent, found = [], []
    for early in (True, False):
        messages = _Messages(early)
        engine = Engine(schedule(build(network)), messages, 1)
        engine.start()
        for _ in drive(engine):
            engine.updates.reduction.poll()
        engine.collect()
        sent.append(messages.sent)
        found.append({key: array.copy() for key, array in engine.state.arrays.items()})
    assert len(set(sent[0])) == 3  # those of both connections have as many features
    assert sent[0] == sent[1]
    assert_same(found[0], found[1])


def _with_rule(network: Network, **keys: Any) -> Network:
    """Return the network with keys of its learning rule replaced."""
    conv: Any = network.connections["dictionary"]
    conv = conv.model_copy(update={"learn": conv.learn.model_copy(update=keys)})
    return network.model_copy(update={"connections": {**network.connections, "dictionary": conv}})


def test_threads_that_share_one_slice_change_no_bit() -> None:
    data = images(1, items=1, shape=(128, 128, 3))
    network = lca_network(data, features=64, patch=(8, 8), display=4, displays=2)
    _, recorded = simulate(network, threads=1)
    _, shared = simulate(network, threads=3)
    assert_same(shared, recorded)
    for threads, helps in ((1, False), (3, True)):
        engine = Engine(schedule(build(network)), Serial(), threads)
        engine.start()
        steps = drive(engine)
        next(steps)
        stepper = engine.lanes[0].stepper
        assert isinstance(stepper, ProgramStepper)
        assert (stepper.team is not None) == helps
        steps.close()
        assert stepper.team is None


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_a_slice_that_threads_share_is_resumed_in_the_middle_of_a_display(kernel: str) -> None:
    data = images(1, items=1, shape=(128, 128, 3))
    keys: dict[str, Any] = {"features": 64, "patch": (8, 8), "display": 20, "displays": 1, "learn": False}
    plan = replace(schedule(build(lca_network(data, kernel=kernel, **keys))), stops=(10,))
    whole, resumed = Engine(plan, Serial(), 3), Engine(plan, Serial(), 3)
    whole.start()
    for step in drive(whole):
        if step == 10:
            whole.collect()
            resumed.resume(10, {key: array.copy() for key, array in whole.state.saved().items()})
    assert resumed.state.arrays["layers/V1/A"].any()
    collect(resumed)
    assert_same(resumed.state.saved(), whole.state.saved())


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
@pytest.mark.parametrize("batch", [3, 5, 9])
def test_slices_that_take_turns_at_the_end_have_the_bits_of_slices_one_by_one(
    batch: int, kernel: str
) -> None:
    network = lca_network(images(batch), kernel=kernel, display=10, displays=5)
    one, recorded = simulate(network, threads=1)
    engine, found = simulate(network, threads=2)
    assert engine.backend.workers == 2
    assert_same(found, recorded)
    assert_same(engine.state.saved(), one.state.saved())


@pytest.mark.parametrize("learn", [False, True])
def test_shared_weights_are_recorded_at_any_step(learn: bool) -> None:
    _, found = simulate(lca_network(images(2), learn=learn, record=Every(7)))
    weights = found["connections/dictionary/weights"]  # steps 0, 7, 14, .. 77 and 80; updates at 20, 40, ..
    updates = np.array([*range(0, 80, 7), 80]) // 20 if learn else np.zeros(13, int)
    for row, update in enumerate(updates):
        same = np.flatnonzero(updates == update)
        assert all(np.array_equal(weights[row], weights[other]) == (other in same) for other in range(13))
