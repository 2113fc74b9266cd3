"""Small slices that are advanced in one compiled call: the bits of a slice depend on no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from petabatch import Simulator
from petabatch.connections import Conv, Identity
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program.compiled import CompiledProgram
from petabatch.engine.steppers.program.stepper import ProgramStepper
from petabatch.layers import Linear
from petabatch.network.build import build
from petabatch.network.plan import Plan, schedule
from petabatch.network.together import group_size
from petabatch.parallel.comm import Serial
from petabatch.probes import Optimality
from petabatch.spec.network import Network, Until
from petabatch.spec.parts import DISPLAY
from petabatch.spec.schedule import Every
from petabatch.threads import ThreadPool
from support.networks import GivenWeights, collect, images, lca_network, simulate
from support.random_runs import Arrays, on_ranks, states
from support.recurrent import everything, in_groups, recurrent_network

some = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)


def assert_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].tobytes() == values.tobytes(), key


def sizes(engine: Engine) -> list[int]:
    return [len(group.all) for group in engine.dispatch._grouped[False]]


@some
@given(seed=st.integers(0, 2**32), batch=st.integers(2, 9), most=st.integers(2, 9), threads=st.integers(1, 3))
def test_bits_depend_on_no_group_and_no_thread(seed: int, batch: int, most: int, threads: int) -> None:
    network = recurrent_network(seed, batch)
    engine, expected = in_groups(network, 1)
    assert sizes(engine) == [1] * batch
    engine, found = in_groups(network, most, threads)
    assert batch < threads or max(sizes(engine)) == min(most, -(-batch // len(sizes(engine))))
    assert_equal(found, expected)


@some
@given(seed=st.integers(0, 2**32), ranks=st.integers(2, 3))
def test_ranks_and_resumption_change_no_bit(seed: int, ranks: int) -> None:
    network = recurrent_network(seed, 5)
    _, expected = in_groups(network, 1)
    state, recorded = on_ranks(network, ranks)
    assert_equal(everything(state, recorded), expected)
    engine = Engine(schedule(build(network)), Serial(), 2)
    engine.start()
    for step in drive(engine):
        if step == network.run.display:
            break
    engine.collect()
    second = Engine(schedule(build(network)), Serial(), 1)
    second.resume(step, states(engine))
    collect(second)
    for key, array in states(second).items():
        assert array.tobytes() == expected[key].tobytes(), key


def vectors(**keys: object) -> Network:
    """Return a code of vectors, whose only patch is the whole layer, with a readout."""
    base = lca_network(
        images(7, 2, (4, 4, 2)), features=20, patch=(4, 4), stride=4, learn=False, kernel="dense", **keys
    )
    layers = {**base.layers, "readout": Linear(shape=base.layers["V1"].shape)}
    read = Identity(pre="V1", post="readout")
    return base.model_copy(update={"layers": layers, "connections": {**base.connections, "read": read}})


def test_slices_of_a_group_differ_in_their_values() -> None:
    thresholds = tuple(0.2 + 0.1 * number for number in range(7))
    strengths = (1.0, 1.0, 0.5, 0.5, 1.0, 2.0, 2.0)
    own = {
        "layers.V1.threshold": thresholds,
        "connections.read.strength": strengths,
        "probes.energy.coefficient": thresholds,
    }
    network = vectors().model_copy(update={"slices": own})
    engine, found = in_groups(network, 12)
    assert sizes(engine) == [7]
    assert len(np.unique(found["recorded/probes/active/fraction"][-1])) > 1
    assert_equal(found, in_groups(network, 1)[1])


def resting(**keys: object) -> Network:
    """Return vectors whose slices rest at different steps."""
    base = vectors(display=100, until=Until(gap=0.2, every=5), **keys)
    certificate = Optimality(
        image="image", reconstruction="recon", code="V1", drive="drive", coefficient=0.4, every=DISPLAY
    )
    return base.model_copy(update={"probes": {**base.probes, "optimality": certificate}})


def test_slices_of_a_group_rest_each_for_itself() -> None:
    network = resting()
    engine, found = in_groups(network, 12)
    assert sizes(engine) == [7]
    assert len(np.unique(found["recorded/probes/until/steps"])) > 1
    assert_equal(found, in_groups(network, 1)[1])


def test_slices_of_a_call_stop_each_at_its_own_step(monkeypatch: pytest.MonkeyPatch) -> None:
    network = resting(record=DISPLAY)
    engine, expected = in_groups(network, 1)
    assert sizes(engine) == [1] * 7
    monkeypatch.setattr("petabatch.engine.group._TURNS", 1)
    engine, found = in_groups(network, 1)
    assert sizes(engine) == [7]
    assert len(np.unique(found["recorded/probes/until/steps"])) > 1
    assert_equal(found, expected)


def test_what_rests_is_recorded_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    network, room = resting(record=Every(3)), "petabatch.engine.step_records._BYTES"
    monkeypatch.setattr(room, 2000)
    engine, found = in_groups(network, 12)
    assert engine.lanes[0].stepper.most_steps < 20
    assert len(np.unique(found["recorded/probes/until/steps"])) > 1
    monkeypatch.setattr(room, 0)
    engine, expected = in_groups(network, 12)
    assert engine.lanes[0].stepper.most_steps > 100
    assert_equal(found, expected)


def test_slices_with_weights_of_their_own_are_advanced_one_by_one() -> None:
    base = vectors()
    dictionary = base.connections["dictionary"].model_copy(update={"mode": "shared"})
    network = base.model_copy(update={"connections": {**base.connections, "dictionary": dictionary}})
    method = schedule(build(network)).method
    assert method.together == 1
    assert "slice by slice, because each slice has weights of its own in dictionary" in str(method)
    # Nor are they where those weights are shared by many positions, and others by few.
    own = Conv(
        pre="wide", post="wide", patch=(1, 1), mode="shared", init=GivenWeights(data=0.1), feedback=True
    )
    layers = {**base.layers, "wide": Linear(shape=(8, 8, 2))}
    network = base.model_copy(update={"layers": layers, "connections": {**base.connections, "own": own}})
    assert schedule(build(network)).method.together == 1


@pytest.mark.parametrize(
    ("slices", "most", "threads", "expected"),
    [
        (64, 48, 1, 32),
        (50, 48, 1, 32),
        (64, 48, 2, 32),
        (64, 48, 4, 16),
        (20, 48, 2, 10),
        (7, 48, 2, 4),
        (5, 48, 8, 1),
        (200, 6, 3, 6),
        (3, 1, 1, 1),
    ],
)
def test_threads_share_the_slices(slices: int, most: int, threads: int, expected: int) -> None:
    assert group_size(slices, most, threads) == expected


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_few_steps_of_slices_one_after_the_other_are_made_in_one_call(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = lca_network(images(5, 2, (10, 10, 2)), mode=mode, kernel="lazy", display=12)
    found = []
    for most in (1, 2**40):  # groups for few steps in none or in all of the calls
        monkeypatch.setattr(Plan, "lane_steps", most)
        calls: list[int] = []
        advance = ProgramStepper.run_together

        def count(self: Any, steppers: Any, *ends: Any, calls: Any = calls, advance: Any = advance) -> Any:
            calls.append(len(steppers))
            return advance(self, steppers, *ends)

        with monkeypatch.context() as counted:
            counted.setattr(ProgramStepper, "run_together", count)
            engine, recorded = simulate(network, 2)
        several = mode == "extra_shared" and most > 1  # slices with weights of their own are alone
        assert set(calls) == ({3, 2} if several else {1})
        found.append(everything(states(engine), recorded))
    assert_equal(*found)


def test_short_calls_arrange_a_group_once_on_each_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever thread comes first takes the first group: a call of few steps must not arrange it again."""
    arranged = 0
    sections = CompiledProgram.sections

    def counted(*arguments: Any) -> Any:
        nonlocal arranged
        arranged += 1
        return sections(*arguments)

    with Simulator(recurrent_network(1, 8), threads=2) as sim:
        monkeypatch.setattr(CompiledProgram, "sections", counted)
        for _ in range(100):
            sim.step()
    assert (
        arranged <= 4 * 2 + 1
    )  # at most four groups, of which each has been on both threads; one to compile


def test_a_thread_is_woken_for_much_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    woken = 0
    submit = ThreadPool.submit

    def counted(*arguments: Any) -> Any:
        nonlocal woken
        woken += 1
        return submit(*arguments)

    with Simulator(recurrent_network(1, 8), threads=2) as sim:
        sim.step()  # from it, the engine knows how long a step takes
        monkeypatch.setattr(ThreadPool, "submit", counted)
        for worth, expected in ((1e9, 0), (1e-12, 1)):
            monkeypatch.setattr("petabatch.engine.dispatch._WORTH_WAKING", worth)
            woken = 0
            sim.step()
            assert woken == expected
