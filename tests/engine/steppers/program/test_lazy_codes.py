"""Lazily evaluated codes of programs: random networks of sparse-coding loops, and two layers of code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from petabatch.connections import Identity
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.kernels.cpu.program.lazy.layout import ACTIVE, COMPUTED, TAKEN
from petabatch.layers import LCA, BaseTimeScale
from petabatch.network import lazy_codes
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import LayerOutput, Output
from petabatch.spec.schedule import Every
from support.lazy_codes import random_loops, two_layers
from support.lazy_runs import (
    assert_same_bits,
    assert_sleeping_changes_no_bit,
    begin,
    changed,
    finish,
    kept,
    last_state,
    saved,
)
from support.networks import collect, images, lca_network
from support.programs import Runs

some = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)
seeds = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def small_layers_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LASTING", "LEAST", "_SHORT"):
        monkeypatch.setattr(lazy_codes, name, 0)


def plan_of(seed: int, learn: bool = False, scales: bool = True) -> Plan:
    """Return the plan of a random network with lazily evaluated codes in a program."""
    try:
        network = random_loops(seed, learn, scales)
        plan = schedule(build(changed(network, kernel="auto") if seed % 3 == 0 else network))
    except ParamsError:
        assume(False)
    assume(plan.method.stepper == "program" and plan.method.program.lazy)
    return plan


@some
@given(seed=seeds, learn=st.booleans())
def test_sleeping_changes_no_bit(seed: int, learn: bool) -> None:
    assert_sleeping_changes_no_bit(plan_of(seed, learn))


@pytest.mark.parametrize("learn", [0.0, 50.0], ids=["fixed", "others at each display"])
def test_sleeping_changes_no_bit_of_two_layers(learn: float) -> None:
    assert_sleeping_changes_no_bit(schedule(build(two_layers(displays=4, learn=learn))))


@pytest.mark.parametrize("learn", [False, True])
def test_units_with_weights_of_their_own_sleep_too(learn: bool) -> None:
    network = lca_network(images(2), mode="non_shared", learn=learn, display=40, displays=2, kernel="lazy")
    engine, found = last_state(network)
    assert_sleeping_changes_no_bit(engine.plan)
    _, expected = last_state(changed(network, kernel="array", precision="float64"))
    for key in ("layers/V1/A", "layers/recon/A", "connections/dictionary/weights"):
        np.testing.assert_allclose(found[key], expected[key], 0, 1e-5 * abs(expected[key]).max(), err_msg=key)
    units = 2 * 80 * np.prod(network.layers["V1"].shape)
    assert 0 < kept(engine, "V1")[ACTIVE] < kept(engine, "V1")[COMPUTED] < 0.8 * units


@some
@given(seed=seeds, learn=st.booleans(), stop=st.integers(1, 38))
def test_cutting_resuming_and_threads_change_no_bit(seed: int, learn: bool, stop: int) -> None:
    plan = plan_of(seed, learn)
    whole = finish(begin(plan, threads=2))
    first, second = begin(replace(plan, stops=(stop,))), Engine(plan, Serial(), 2)
    try:
        for step in drive(first):
            if step == stop:
                state = saved(first)
            if step % first.plan.flush == 0 or step == plan.length:
                first.flushed()
    except NonFiniteError:
        assume(False)
    second.resume(stop, state)
    assert_same_bits(finish(second), whole)
    assert_same_bits(saved(first), whole)


@some
@given(seed=seeds, learn=st.booleans())
def test_observing_changes_no_bit(seed: int, learn: bool) -> None:
    plan = plan_of(seed, learn)
    network = plan.graph.network
    codes = [code.layer for code in plan.method.program.lazy]
    output = Output(layers={code: LayerOutput(every=Every(3), variables=("A", "V")) for code in codes})
    seen = schedule(build(network.model_copy(update={"output": output})))
    assert_same_bits(finish(begin(plan)), finish(begin(seen)))


def steepness(runs: Runs, key: str) -> float:
    """Return how much larger an error of the activity `key` can be than that of the potential."""
    _, name, variable = key.split("/")
    layer = runs.mine.plan.graph.network.layers[name]
    if variable == "A" and isinstance(layer, LCA) and layer.transfer == "firm":
        return (layer.threshold + layer.width) / layer.width if layer.width > 0 else 1.0
    return 1.0


@some
@given(seed=seeds)
@example(seed=272)  # a firm threshold of slope 4
def test_steps_agree_with_the_layers(seed: int) -> None:
    # A time scale jumps where the energy rises, which rounding decides while nothing moves.
    runs = Runs(plan_of(seed, scales=False).graph.network)
    for step in range(1, 31):
        runs.synchronise()
        try:
            expected = runs.expected(step)
        except NonFiniteError:
            return
        runs.run(step - 1, step)
        found = runs.state
        for key, theirs in expected.items():
            if key.startswith("layers/"):
                largest = max(1.0, abs(theirs).max())
                bound = 1e-5 * largest * steepness(runs, key)
                np.testing.assert_allclose(found[key], theirs, 0, bound, err_msg=key)


@pytest.mark.parametrize("learn", [0.0, 0.2])
def test_two_layers_agree_with_float64_and_most_units_sleep(learn: float) -> None:
    network = two_layers(display=50, displays=2, learn=learn)
    engine, found = last_state(network)
    _, expected = last_state(changed(network, kernel="array", precision="float64"))
    for name in network.layers:
        key = f"layers/{name}/A"
        mine, theirs = found[key], expected[key]
        np.testing.assert_allclose(mine, theirs, 0, 1e-5 * abs(theirs).max(), err_msg=key)
    for code in ("V1", "V2"):
        numbers, units = kept(engine, code), 100 * np.prod(network.layers[code].shape)
        assert numbers[TAKEN] > 0
        assert 0 < numbers[ACTIVE] < numbers[COMPUTED] < 0.4 * units, code


def test_with_many_active_units_all_are_computed_until_the_next_display() -> None:
    network = changed(two_layers(display=40, displays=3, threshold=0.2), kernel="auto")
    plan, awake = schedule(build(network)), "lazy/V1/awake"
    first, second = begin(replace(plan, stops=(30, 60, 100))), Engine(plan, Serial(), 1)
    states = {step: saved(first) for step in drive(first) if step in (30, 60, 100)}
    assert [int(states[step][awake][0]) for step in states] == [0, 1, 1]
    assert [int(states[step]["lazy/V2/awake"][0]) for step in states] == [0, 0, 0]
    assert (states[30]["layers/V1/A"] != 0).mean() > lazy_codes.MOST_ACTIVE
    second.resume(60, states[60])
    assert_same_bits(finish(second), last_state(network)[1])
    A, V = states[60]["layers/V1/A"], states[60]["layers/V1/V"]
    np.testing.assert_array_equal(A[:, 0], np.where(np.float32(0.2) <= V, V - np.float32(0.2), 0))
    expected = last_state(changed(network, kernel="dense"))[1]
    for key in ("layers/V1/A", "layers/V2/A"):
        np.testing.assert_allclose(last_state(network)[1][key], expected[key], 0, 1e-4)


def test_time_scales_are_followed() -> None:
    scale = BaseTimeScale(energy="energy", minimum=0.5, maximum=0.6, factor=0.2, growth=0.1)
    network = two_layers(display=30, time_scale=scale)
    found, expected = last_state(network)[1], last_state(changed(network, kernel="array"))[1]
    assert (expected["layers/V1/time_scale"] > 0.6).all()
    for key in ("layers/V1/A", "layers/V1/V", "layers/V2/A", "layers/V1/time_scale"):
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-4, atol=2e-5, err_msg=key)


def test_potentials_that_are_read_are_those_of_their_activities() -> None:
    network = two_layers(display=50, displays=1)
    output = Output(layers={name: LayerOutput(every=Every(7), variables=("A", "V")) for name in ("V1", "V2")})
    found = collect(begin(schedule(build(network.model_copy(update={"output": output})))))
    for name in ("V1", "V2"):
        V, A = found[f"layers/{name}/V"], found[f"layers/{name}/A"]
        threshold = np.float32(network.layers[name].threshold)
        assert A.any()
        np.testing.assert_array_equal(A, np.where(threshold <= V, V - threshold, 0))


def test_a_checkpoint_of_dense_steps_continues_lazily_and_back() -> None:
    network = two_layers(display=50, displays=2)
    plans = {kernel: schedule(build(changed(network, kernel=kernel))) for kernel in ("dense", "lazy")}
    expected = finish(begin(plans["dense"]))["layers/V2/A"]
    for one, other in (("dense", "lazy"), ("lazy", "dense")):
        first, second = begin(replace(plans[one], stops=(60,))), Engine(plans[other], Serial(), 1)
        next(step for step in drive(first) if step == 60)
        second.resume(60, saved(first))
        np.testing.assert_allclose(finish(second)["layers/V2/A"], expected, 0, 1e-4)


def test_check_says_which_codes_are_lazy_and_why_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    network = two_layers()
    assert "lazily evaluated: V1, V2" in str(choose(build(network)))
    V2 = network.layers["V2"]
    for keys, reason in (
        ({"every": Every(2)}, "it does not update in every step"),
        ({"threshold": 0.0}, "it is not silent below a positive threshold"),
    ):
        layers = {**network.layers, "V2": LCA(**{**dict(V2), **keys})}
        method = str(choose(build(network.model_copy(update={"layers": layers}))))
        assert "lazily evaluated: V1" in method
        assert f"all units of V2 are computed, because {reason}" in method
    assert "lazily" not in str(choose(build(changed(network, kernel="dense"))))
    assert "lazily evaluated: V1, V2" in str(choose(build(changed(network, kernel="auto"))))
    monkeypatch.undo()
    assert "layers this small" in str(choose(build(changed(network, kernel="auto", display=1000))))


def test_a_kernel_that_no_code_can_have_is_an_error() -> None:
    network = two_layers()
    layers = {
        name: LCA(**{**dict(layer), "minimum": 0.1}) if isinstance(layer, LCA) else layer
        for name, layer in network.layers.items()
    }
    with pytest.raises(ParamsError, match="this kernel cannot run this network"):
        build(network.model_copy(update={"layers": layers}))


@pytest.mark.parametrize("kernel", ["lazy", "auto"], ids=["asleep", "awake"])
@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_code_that_sees_itself_sees_the_step_it_asks_for(delay: int, kernel: str) -> None:
    base = two_layers(display=20, displays=2, threshold=0.6 if kernel == "lazy" else 0.1)
    itself = Identity(pre="V1", post="V1", delay_steps=delay, strength=-0.3, feedback=True)
    net = base.model_copy(update={"connections": {**base.connections, "itself": itself}})
    _, found = last_state(changed(net, kernel=kernel))
    assert (found["lazy/V1/awake"] == (kernel == "auto")).all()
    _, expected = last_state(changed(net, kernel="array", precision="float64"))
    for key in ("layers/V1/A", "layers/V2/A", "layers/recon/A"):
        theirs = expected[key]
        np.testing.assert_allclose(found[key], theirs, 0, 2e-5 * abs(theirs).max(), err_msg=key)
