"""A simulator makes the bits of a run, however its steps are cut, read, saved and distributed."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from petabatch import Simulator
from petabatch.errors import ArgumentError, NonFiniteError, ParamsError
from petabatch.network import lazy_codes
from petabatch.parallel.comm import Serial
from petabatch.simulator import simulator
from petabatch.spec.network import Network
from petabatch.spec.over_time import OverTime
from support.networks import images, lca_network, simulate
from support.random_runs import finish, random_run, states
from support.rank_threads import on_threads

few = settings(max_examples=12)
seeds = st.integers(0, 2**32)
cuts = st.lists(st.integers(1, 7), min_size=1, max_size=12)
KERNELS = ("dense", "lazy", "array")
Arrays = dict[str, np.ndarray]


def run_of(seed: int) -> tuple[Network, Arrays, Arrays]:
    """Return a random network, the state at the end of its run, and what it recorded."""
    try:
        network = random_run(seed)
        engine, recorded = finish(network)
    except (ParamsError, NonFiniteError):
        assume(False)
    return network, states(engine), recorded


def stepped(sim: Simulator, sizes: list[int], read: bool = False, until: int | None = None) -> None:
    """Make the steps of the run of a simulator in calls of these sizes, over and over."""
    last, number = sim.network.run.length if until is None else until, 0
    while sim.n_steps < last:
        sim.step(min(sizes[number % len(sizes)], last - sim.n_steps))
        number += 1
        for name in sim.network.layers if read else ():
            dict(sim[f"layers.{name}"])


def assert_equal(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].tobytes() == values.tobytes(), key


@few
@given(seed=seeds, sizes=cuts, threads=st.integers(1, 3), read=st.booleans(), woken=st.booleans())
def test_steps_in_any_calls_equal_one_run(
    seed: int, sizes: list[int], threads: int, read: bool, woken: bool
) -> None:
    network, state, recorded = run_of(seed)
    with pytest.MonkeyPatch.context() as patch, Simulator(network, threads=threads) as sim:
        if woken:  # threads for calls of the least work, too
            patch.setattr("petabatch.engine.dispatch._WORTH_WAKING", 1e-12)
        stepped(sim, sizes, read)
        assert_equal(dict(sim.save().arrays), state)
        assert_equal(sim.recorded, recorded)


@few
@given(seed=seeds, sizes=cuts, at=st.integers(0, 12), more=st.integers(1, 12))
def test_going_back_to_a_saved_state_forgets_what_came_later(
    seed: int, sizes: list[int], at: int, more: int
) -> None:
    network, state, recorded = run_of(seed)
    with Simulator(network, threads=2) as sim:
        sim.step(min(at, network.run.length))
        saved = sim.save()
        sim.step(more)
        changed = next(iter(network.layers))
        sim[f"layers.{changed}"]["A"] = 0.5
        sim.load(saved)
        assert sim.changes == {}
        assert all(steps[-1:] <= saved.step for steps in sim.recorded_steps.values())
        with sim.copy() as other:
            for one in (sim, other):
                stepped(one, sizes)
                assert_equal(dict(one.save().arrays), state)
        assert_equal(sim.recorded, recorded)


def write(sim: Simulator, rng: np.random.Generator) -> None:
    """Change a variable of a slice, a number of a layer, weights or an image."""
    part = sim[f"layers.{rng.choice(list(sim.network.layers))}"]
    kind = rng.integers(4)
    if kind == 0:
        values = part[rng.choice(part.arrays)]
        values[rng.integers(len(values))] *= 0.5 if values.dtype.kind == "f" else 1
    elif kind == 1:
        for key in part._table_keys()[:1]:
            with suppress(ArgumentError):  # 0 may be no value of it
                part[key] = rng.choice([0.5, 1.0]) * part[key]
    elif kind == 2:
        for name in sim._engine.plan.graph.weighted:
            sim[f"connections.{name}"]["weights"][...] *= 0.9
    else:
        name = rng.choice(list(sim._engine.readers))
        sim.show(name, rng.normal(size=sim._engine.readers[name].shape), always=bool(rng.integers(2)))


@few
@given(
    seed=seeds,
    sizes=cuts,
    threads=st.integers(1, 3),
    writes=st.lists(st.tuples(st.integers(0, 12), seeds), min_size=1, max_size=4),
)
def test_steps_between_writes_have_the_same_bits_in_any_calls(
    seed: int, sizes: list[int], threads: int, writes: list[tuple[int, int]]
) -> None:
    network, _, _ = run_of(seed)

    def session(sim: Simulator, sizes: list[int], read: bool) -> None:
        for at, drawn in sorted(writes):
            stepped(sim, sizes, read, min(at, network.run.length))
            write(sim, np.random.default_rng(drawn))
        stepped(sim, sizes, read)

    with Simulator(network) as sim, Simulator(network, threads=threads) as other:
        try:
            session(sim, [network.run.length], False)
        except NonFiniteError:
            assume(False)
        session(other, sizes, True)
        assert_equal(dict(other.save().arrays), dict(sim.save().arrays))
        assert_equal(other.recorded, sim.recorded)
        assert other.changes == sim.changes


@few
@given(seed=seeds, steps=st.integers(0, 10), data=st.data())
def test_what_is_written_is_read_and_changes_nothing_else(seed: int, steps: int, data: Any) -> None:
    network, _, _ = run_of(seed)
    with Simulator(network) as sim:
        sim.step(steps)
        parts = [f"layers.{name}" for name in network.layers]
        part = sim[data.draw(st.sampled_from(parts))]
        name = data.draw(st.sampled_from(part.arrays))
        before, slices = {one: np.array(part[one]) for one in part.arrays}, sim.slices
        number = data.draw(st.integers(0, len(slices) - 1))
        expected = before[name].copy()
        expected[number] = np.asarray(0.25, expected.dtype)
        part[name][number] = np.asarray(0.25, expected.dtype)
        np.testing.assert_array_equal(part[name], expected)
        for one, values in before.items():
            if one not in (name, "A", "history"):
                np.testing.assert_array_equal(part[one], values)
        sim.step(3)


@few
@given(seed=seeds, sizes=cuts, ranks=st.integers(1, 3))
def test_ranks_change_no_bit(seed: int, sizes: list[int], ranks: int) -> None:
    network, state, recorded = run_of(seed)
    here = threading.local()

    def rank(comm: Serial) -> tuple[range, Arrays, Arrays, Arrays]:
        here.comm = comm
        with Simulator(network) as sim:
            stepped(sim, sizes)
            whole = {name: sim[f"layers.{name}"].gather("A") for name in network.layers}
            return sim.slices, dict(sim.save().arrays), sim.recorded, whole

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator, "connect", lambda mpi: here.comm)
        patch.setattr(simulator, "assert_same_software", lambda comm, loaded: None)  # they are threads
        found = on_threads(ranks, rank)
    with Simulator(network) as sim:
        batched = {key for key, one in sim._engine.state.variables.items() if one.per == "slice"}
        sim.step(network.run.length)
        all_of = {name: np.array(sim[f"layers.{name}"]["A"]) for name in network.layers}
    assert [number for slices, *_ in found for number in slices] == list(range(network.batch))
    for slices, mine, seen, whole in found:
        part = slice(slices.start, slices.stop)
        assert_equal(mine, {key: array[part] if key in batched else array for key, array in state.items()})
        for path, values in seen.items():
            expected = recorded[path]
            assert values.tobytes() in (expected.tobytes(), expected[:, part].tobytes()), path
        assert_equal(whole, all_of)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_number_changed_by_hand_equals_the_same_value_over_time(kernel: str) -> None:
    net = lca_network(images(3), kernel=kernel, learn=False)  # what learns starts from V in any case
    table = OverTime(at=[1, 3, 4], values=[0.4, 0.3, 0.5])
    engine, recorded = simulate(net.model_copy(update={"over_time": {"layers.V1.threshold": table}}))
    with Simulator(net) as sim:
        for display, value in enumerate((0.4, 0.4, 0.3, 0.5)):
            if value != sim["V1"]["threshold"]:
                sim["V1"]["threshold"] = value
            sim.step(20)
            assert sim.display == display + 1
        assert_equal(dict(sim.save().arrays), states(engine))
        assert_equal(sim.recorded, recorded)
        assert sim.changes == {"layers.V1.threshold": 40}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_value_of_each_slice_is_that_of_a_simulator_of_its_own(kernel: str) -> None:
    data, values = images(3), [0.2, 0.4, 0.7]
    with Simulator(lca_network(data, kernel=kernel, learn=False, mode="shared")) as sim:
        sim.step(13)
        sim["V1"]["threshold"] = values
        np.testing.assert_array_equal(sim["V1"]["threshold"], values)
        sim.step(17)
        found = np.array(sim["V1"]["V"])
    for number, value in enumerate(values):
        one = lca_network(data[number : number + 1], kernel=kernel, learn=False, mode="shared")
        with Simulator(one) as sim:
            sim.step(13)
            sim["V1"]["threshold"] = value
            sim.step(17)
            np.testing.assert_array_equal(sim["V1"]["V"][0], found[number])


def test_a_slice_moves_to_the_kernel_that_its_value_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_codes, "LEAST", 0)  # else all units of layers this small are computed
    data = images(2)
    with Simulator(lca_network(data, learn=False, mode="shared")) as sim:
        sim.step(13)
        assert "lazily evaluated: V1" in sim.method
        sim["V1"]["threshold"] = [0.0, 0.4]  # without a threshold all units are computed
        kinds = [lane.plan.method.decision[1:2] for lane in sim._engine.lanes]
        assert kinds == [(), ("V1",)]
        sim.step(9)
        sim["V1"]["threshold"] = [0.4, 0.0]
        sim.step(8)
        found = np.array(sim["V1"]["V"])
    for number, values in enumerate(([0.0, 0.4], [0.4, 0.0])):
        one = lca_network(data[number : number + 1], learn=False, mode="shared")
        with Simulator(one) as sim:
            sim.step(13)
            for value, steps in zip(values, (9, 8), strict=True):
                sim["V1"]["threshold"] = value
                sim.step(steps)
            np.testing.assert_array_equal(sim["V1"]["V"][0], found[number])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_written_potential_is_that_of_a_state_resumed_with_it(kernel: str) -> None:
    net = lca_network(images(2), kernel=kernel, learn=False)
    potential = np.random.default_rng(5).normal(size=(2, 6, 8, 12)).astype(np.float32)
    with Simulator(net) as sim, Simulator(net) as other:
        sim.step(15)
        saved = sim.save()
        sim["V1"]["V"] = potential
        saved.arrays["layers/V1/V"][...] = potential
        if kernel == "lazy":
            saved.arrays["lazy/V1/decay"][...] = 0  # it starts from V
        other.load(saved)
        for one in (sim, other):
            one.step(25)
        assert_equal(dict(sim.save().arrays), dict(other.save().arrays))
