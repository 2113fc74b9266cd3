"""The simulator as users have it: reading and assigning, images, callbacks, errors, closing."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import time
import tracemalloc
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import petabatch
from petabatch import Simulator
from petabatch.connections import Conv, Identity
from petabatch.errors import ArgumentError, NonFiniteError, PartError, PetabatchError, UnknownName
from petabatch.learning import Hebbian
from petabatch.parallel.comm import Serial
from petabatch.simulator import simulator, undo
from petabatch.simulator.interrupts import Interrupts
from petabatch.simulator.running import Running
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array
from petabatch.weights import L2, Gaussian
from support.networks import images, lca_network
from support.rank_threads import on_threads

DATA = images(3)


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator(lca_network(DATA), threads=2) as simulator:
        yield simulator


class Trouble(Layer):
    """A = input; `event` is called in each step."""

    type: Literal["trouble"] = "trouble"
    event: Any

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        self.event(ctx.step, ctx.slices)
        activity[...] = drive[0]


def troubled(event: Any) -> Network:
    """Return the network of `lca_network` with a layer that calls `event`."""
    net = lca_network(DATA)
    layers = {**net.layers, "trouble": Trouble(shape=net.layers["image"].shape, event=event)}
    wires = {**net.connections, "heard": Identity(pre="error", post="trouble")}
    return net.model_copy(update={"layers": layers, "connections": wires})


def test_arrays_are_read_and_assigned_as_those_of_numpy(sim: Simulator) -> None:
    sim.step(5)
    v = sim["V1"]["V"]
    assert v.shape == (3, 6, 8, 12)
    assert isinstance(v, np.ndarray)
    assert type(v * 2) is type(np.exp(v)) is type(v[0]) is np.ndarray
    expected = np.array(v)
    v[1, :2] = 3
    expected[1, :2] = 3
    sim["V1"]["V"][expected < 0] = 0
    expected[expected < 0] = 0
    sim["V1"]["V"] += [[[[1]]], [[[2]]], [[[3]]]]
    expected += np.array([1, 2, 3], np.float32)[:, None, None, None]
    np.testing.assert_array_equal(sim["V1"]["V"], expected)
    np.testing.assert_array_equal(v[1, :2], 3)
    with pytest.raises(ValueError, match="read-only"):
        sim["V1"]["V"].fill(0)
    sim["dictionary"]["weights"] = np.zeros((1, 1, 12, 6, 6, 3)).reshape(sim["dictionary"]["weights"].shape)
    sim.step(1)
    assert not sim["recon"]["A"].any()
    assert list(sim.changes.items()) == [("layers.V1.V", 5), ("connections.dictionary.weights", 5)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.nan, "some values are not finite"),
        (np.float64(1e300), "some values are not finite"),
        ("x", "this is not an array"),
        (None, "this is not an array"),
        (1j, "this is not an array of real numbers"),
        ([[1], [2, 3]], "these lists are not an array: their lengths differ"),
        ({"a": 1}, "this is not an array"),
        (np.zeros((2, 2)), "could not broadcast"),
    ],
)
def test_a_value_that_cannot_be_assigned_changes_nothing(sim: Simulator, value: Any, said: str) -> None:
    sim.step(3)
    before = sim.save()
    with pytest.raises(ArgumentError, match=said) as caught:
        sim["V1"]["V"] = value
    assert str(caught.value).startswith("layers.V1.V: ")
    assert sim.changes == {}
    for key, array in sim.save().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[key])


@pytest.mark.parametrize("value", [-1, "x", None, np.nan, [0.1, 0.2], {"a": 1}, np.zeros((3, 1))])
def test_a_number_that_cannot_be_had_changes_nothing(sim: Simulator, value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"layers\.V1\.threshold"):
        sim["V1"]["threshold"] = value
    assert sim["V1"]["threshold"] == 0.4
    sim.step(1)


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.5), (0.5, 0.0)])
def test_a_number_brings_and_takes_the_variables_that_it_needs(before: float, after: float) -> None:
    net, fresh = lca_network(DATA, momentum=before), lca_network(DATA, momentum=after)
    with Simulator(net) as sim, Simulator(fresh) as other:
        sim.step(25)
        sim["dictionary"]["learn.momentum"] = after
        assert ("momentum" in sim["dictionary"]) == (after > 0)
        state = sim.save()
        if after:
            assert not np.any(sim["dictionary"]["momentum"])
        other.load(replace(state, numbers={}, changes={}))  # with this momentum from the start
        sim.load(state)
        with sim.copy() as copied:
            for one in (sim, other, copied):
                one.step(40)
            assert_states_equal(sim, other)
            assert_states_equal(sim, copied)
        other.load(state)
        other.step(40)
        assert_states_equal(sim, other)
        assert other["dictionary"]["learn.momentum"] == after


def test_a_state_that_is_not_finite_changes_nothing(sim: Simulator) -> None:
    sim.step(7)
    before, wrong = sim.save(), sim.save()
    wrong.arrays["layers/V1/V"][1, 2] = np.nan
    for numbers in ({}, {"layers.V1.threshold": 0.3}):
        with pytest.raises(NonFiniteError, match="V of layer V1 of slice 1"):
            sim.load(replace(wrong, numbers=numbers))
        assert sim["V1"]["threshold"] == 0.4
        assert sim.changes == {}
        for key, array in sim.save().arrays.items():
            np.testing.assert_array_equal(array, before.arrays[key], err_msg=key)


def test_unknown_names_are_told_with_what_there_is(sim: Simulator) -> None:
    with pytest.raises(UnknownName, match="did you mean V1"):
        sim["V2"]
    with pytest.raises(UnknownName, match="did you mean threshold"):
        sim["V1"]["treshold"]
    with pytest.raises(ArgumentError, match="did you mean threshold"):
        sim["V1"]["treshold"] = 1
    for use in (lambda: sim["V1"]["v"], lambda: sim["V1"].__setitem__("v", 0)):
        with pytest.raises(UnknownName, match=r"(?s)expected: A, V, history, .*threshold.*did you mean V?"):
            use()
    with pytest.raises(UnknownName, match=re.escape('those of dictionary: sim["dictionary"]["weights"]')):
        sim["drive"]["weights"]
    with pytest.raises(UnknownName, match="input layer"):
        sim.show("V1", 0)
    with pytest.raises(ArgumentError, match="measured"):
        sim["energy"]["total"] = 0
    sim.step(20)
    with pytest.raises(UnknownName, match=r"did you mean layers/V1/[AV]"):
        sim.recorded["layers/V1/B"]
    with pytest.raises(UnknownName, match="there is no record nothing"):
        sim.recorded_steps["nothing"]
    with pytest.raises(ArgumentError, match=r"(?s)layers.V1.V: there are no such elements.*\[\(0, 99\)\]"):
        sim["V1"]["V"][0, 99] = 1.0
    with pytest.raises(ArgumentError, match=r"(?s)could not broadcast.*float32 \[2\]"):
        sim["V1"]["V"][0] = [1.0, 2.0]
    assert set(sim["V1"]) == {"A", "V", "history"}


def test_probes_are_measured_when_they_are_read(sim: Simulator) -> None:
    sim.step(20)
    np.testing.assert_allclose(sim["energy"]["total"], sim.recorded["probes/energy/total"][-1], rtol=1e-12)
    sim["V1"]["A"] = 0
    assert (sim["active"]["fraction"] == 0).all()


def test_images_are_shown_until_the_next_display_or_for_good(sim: Simulator) -> None:
    ours = np.random.default_rng(0).normal(size=(3, 12, 16, 3)).astype(np.float32)

    def seen() -> np.ndarray:
        return np.array(sim["image"]["A"])

    sim.step(7)
    sim.show("image", ours)
    np.testing.assert_array_equal(seen(), ours)
    sim.step(13)
    np.testing.assert_array_equal(seen(), ours)
    sim.step(1)
    np.testing.assert_array_equal(seen(), DATA[:, 1])
    sim.step(19)
    sim.show("image", ours[0])  # between two displays: in the next
    np.testing.assert_array_equal(seen(), DATA[:, 1])
    sim.step(20)
    np.testing.assert_array_equal(seen(), [ours[0]] * 3)
    sim.step(1)
    np.testing.assert_array_equal(seen(), DATA[:, 1])
    sim.show("image", 0.5, always=True)
    with sim.copy() as other:
        for one in (sim, other):
            one.step(45)
            assert (one["image"]["A"] == 0.5).all()
    sim.show("image", None)
    np.testing.assert_array_equal(seen(), DATA[:, 1])
    for wrong in (np.zeros(7), np.nan, "x", np.zeros((2, 12, 16, 3))):
        with pytest.raises(ArgumentError, match="images"):
            sim.show("image", wrong)


@pytest.mark.parametrize("kernel", ["dense", "lazy", "array"])
def test_shown_images_give_the_bits_of_a_source_with_them(kernel: str) -> None:
    with (
        Simulator(lca_network(DATA, kernel=kernel)) as plain,
        Simulator(lca_network(np.zeros_like(DATA), kernel=kernel)) as shown,
    ):
        shown.show("image", DATA[:, 0])
        for display in range(4):
            for one in (plain, shown):
                one.step(20)
            shown.show("image", DATA[:, (display + 1) % 2])
        for key, array in plain.save().arrays.items():
            np.testing.assert_array_equal(shown.save().arrays[key], array, err_msg=key)


def test_callbacks_are_called_on_their_schedules(sim: Simulator) -> None:
    called: list[tuple[str, int]] = []

    def at_display(one: Simulator) -> None:
        called.append(("display", one.n_steps))
        one["V1"]["threshold"] = 0.5
        with pytest.raises(PetabatchError, match="a step is being made"):
            one.step()

    def at_seven(one: Simulator) -> None:
        called.append(("seven", one.n_steps))

    sim.callback(at_display)
    sim.callback(at_seven, every=7)
    sim.callback(lambda one: called.append(("list", one.n_steps)), every=[40, 3, np.int64(20)])
    sim.run(30, quiet=True)
    assert called == [
        ("list", 3),
        ("seven", 7),
        ("seven", 14),
        ("display", 20),
        ("list", 20),
        ("seven", 21),
        ("seven", 28),
    ]
    sim.remove_callback(at_seven)
    called.clear()
    sim.step(10)
    assert called == [("display", 40), ("list", 40)]
    with pytest.raises(ArgumentError, match="no callback"):
        sim.remove_callback(at_seven)
    for wrong in ("x", 0, -1, 1.5, None, [0], {"a": 1}):
        with pytest.raises(ArgumentError, match="every"):
            sim.callback(at_seven, every=wrong)


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_the_state_is_that_of_a_whole_step(threads: int) -> None:
    fails = True

    def event(step: int, slices: Sequence[int]) -> None:
        if fails and step == 13 and 1 in slices:
            raise RuntimeError("no")

    net = troubled(event)
    with Simulator(net, threads=threads) as sim, Simulator(net, threads=threads) as other:
        with pytest.raises(PartError, match="no"):
            sim.run(quiet=True)
        assert sim.n_steps == 0
        sim.step(10)
        with pytest.raises(PartError, match="no"):
            sim.step(10)
        assert sim.n_steps == 10
        fails = False
        for one in (sim, other):
            one.run(quiet=True)
        assert_equal(sim, other)


def test_weights_that_are_normalised_with_others_are_those_before_an_error() -> None:
    def event(step: int, slices: Sequence[int]) -> None:
        if step == 13:
            raise RuntimeError("no")

    patches = {"post": "recon", "patch": (4, 4), "init": Gaussian(std=0.3), "mode": "shared"}
    learn, together = Hebbian(error="error", rate=0.5, every=1), L2(together=("beside",))
    net = troubled(event)
    beside = {
        "learnt": Conv(pre="V1", channel="none", learn=learn, normalize=together, **patches),
        "beside": Conv(pre="V1", channel="none", **patches),
    }
    net = net.model_copy(update={"connections": net.connections | beside})
    with Simulator(net) as sim:
        sim.step(10)
        before = {name: sim[name]["weights"][...].copy() for name in ("learnt", "beside")}
        with pytest.raises(PartError, match="no"):
            sim.step(10)
        assert sim.n_steps == 10
        for name, weights in before.items():
            assert np.array_equal(sim[name]["weights"][...], weights), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", ["dense", "lazy", "array"])
@pytest.mark.parametrize("seldom", [0, 1e9])
def test_steps_since_the_last_copy_are_made_again_after_an_error(
    kernel: Literal["dense", "lazy", "array"], seldom: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "_SELDOM", seldom)
    fails = True

    def event(step: int, slices: Sequence[int]) -> None:
        if fails and step == 47 and 1 in slices:
            raise RuntimeError("no")

    net = troubled(event)
    net = net.model_copy(update={"run": net.run.model_copy(update={"kernel": kernel})})

    def session(sim: Simulator) -> Simulator:
        for number in range(46 - sim.n_steps):
            sim.step()
            if number == 11:
                sim["V1"]["V"][1] = 0.7  # what is copied before is not what steps go on from
            if number == 25:
                sim.show("image", DATA[::-1, 1])
            if number == 33:
                assert len(sim.recorded["layers/V1/A"]) == 1  # these rows are not written again
        return sim

    with session(Simulator(net)) as sim, session(Simulator(net)) as other:
        for _ in range(2):
            with pytest.raises(PartError, match="no"):
                sim.step(10)
            assert sim.n_steps == 46
        assert_equal(sim, other)
        fails = False
        for one in (sim, other):
            one.step(30)
        assert_equal(sim, other)


def assert_states_equal(one: Simulator, other: Simulator) -> None:
    found, expected = one.save().arrays, other.save().arrays
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


def assert_equal(one: Simulator, other: Simulator) -> None:
    assert_states_equal(one, other)
    for path, values in other.recorded.items():
        np.testing.assert_array_equal(one.recorded[path], values, err_msg=path)
        np.testing.assert_array_equal(one.recorded_steps[path], other.recorded_steps[path], err_msg=path)


def test_a_step_that_is_made_again_is_recorded_once() -> None:
    fails = True

    def event(step: int, slices: Sequence[int]) -> None:
        if fails:
            raise RuntimeError("no")

    with Simulator(troubled(event)) as sim:
        with pytest.raises(PartError, match="no"):
            sim.step()
        fails = False
        sim["V1"]["threshold"] = 0.3
        sim.step(20)
        assert sim.recorded_steps["connections/dictionary/weights"].tolist() == [0, 20]


def test_an_interrupt_waits_for_whole_steps() -> None:
    def event(step: int, slices: Sequence[int]) -> None:
        if step == 5 and 1 in slices:
            os.kill(os.getpid(), signal.SIGINT)

    with Simulator(troubled(event)) as sim, Simulator(lca_network(DATA)) as other:
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                sim.step(20)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGINT, before)
        other.step(sim.n_steps)
        assert 5 <= sim.n_steps <= 20
        np.testing.assert_array_equal(sim["V1"]["V"], other["V1"]["V"])


def test_simulators_side_by_side_and_on_threads_do_not_disturb_each_other() -> None:
    net = lca_network(DATA)
    with Simulator(net) as one:
        one.step(60)
        expected = np.array(one["V1"]["V"])

    def alone(number: int) -> np.ndarray:
        with Simulator(net, threads=1 + number) as sim:
            for _ in range(20):
                sim.step(3)
            return np.array(sim["V1"]["V"])

    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(alone, range(2)):
            np.testing.assert_array_equal(found, expected)
    with Simulator(net) as one, Simulator(net) as two:
        for _ in range(20):
            one.step(3)
            two.step(3)
        np.testing.assert_array_equal(one["V1"]["V"], expected)
        np.testing.assert_array_equal(two["V1"]["V"], expected)


def test_a_simulator_is_used_by_one_thread_at_a_time() -> None:
    began, go_on = threading.Event(), threading.Event()

    def event(step: int, slices: Sequence[int]) -> None:
        began.set()
        go_on.wait(60)

    with Simulator(troubled(event)) as sim, ThreadPoolExecutor(1) as pool:
        stepping = pool.submit(sim.step)
        assert began.wait(60)
        with pytest.raises(PetabatchError, match="a step is being made"):
            sim.step()
        go_on.set()
        stepping.result()


def test_closing_frees_what_it_had() -> None:
    threads = threading.active_count()
    sim = Simulator(lca_network(DATA), threads=2)
    sim.step(3)
    engine = weakref.ref(sim._engine)
    sim.close()
    sim.close()
    gc.collect()
    assert engine() is None
    assert threading.active_count() == threads
    assert repr(sim) == "<petabatch simulator: closed>"
    for use in (sim.step, sim.save, lambda: sim["V1"], lambda: sim.n_steps, lambda: sim.recorded):
        with pytest.raises(PetabatchError, match="closed"):
            use()


def test_memory_does_not_grow_with_the_simulators_that_were_closed() -> None:
    net = lca_network(DATA)

    def use() -> None:
        with Simulator(net, threads=2) as sim:
            sim.step(3)
            sim["V1"]["threshold"] = 0.3
            sim.step()

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    for _ in range(3):
        use()
    before, known = objects(), tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        use()
        gc.collect()
        begin, _ = tracemalloc.get_traced_memory()
        for _ in range(5):
            use()
        gc.collect()
        end, _ = tracemalloc.get_traced_memory()
    finally:
        if not known:
            tracemalloc.stop()
    assert objects() - before < 100
    assert end - begin < 100_000  # each had more


def test_networks_are_taken_as_run_takes_them(small: Path) -> None:
    for given in (small, str(small), petabatch.load(small)):
        with Simulator(given) as sim:
            sim.run(quiet=True)
            assert sim.n_steps == sim.network.run.length
            sim.step(5)  # beyond the end
            assert sim.time == sim.n_steps * sim.network.run.dt
    with pytest.raises(ArgumentError, match="not a network"):
        Simulator({"run": {}})  # type: ignore[arg-type]
    with Simulator(small) as sim:
        sim.step(2)
        with pytest.raises(ArgumentError, match="made already"):
            sim.run(1)
        with Simulator(lca_network(DATA)) as other, pytest.raises(ArgumentError, match="another network"):
            other.load(sim.save())
    assert Run(steps=1).batch == 1


def test_names_can_be_asked_for_without_reading(sim: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("V1", "dictionary", "energy", "layers.V1"):
        assert name in sim, name
    for other in ("V2", "probes.V1", "layers", 1, None):
        assert other not in sim, other
    V1, energy = sim["V1"], sim["energy"]
    monkeypatch.setattr(type(V1), "_read", None)
    monkeypatch.setattr(type(energy), "_read", None)
    for part, name in ((V1, "V"), (V1, "threshold"), (sim["dictionary"], "learn.rate"), (energy, "total")):
        assert name in part, name
    for part, other in ((V1, "W"), (sim["image"], "source"), (V1, 1)):
        assert other not in part, other


def test_gathering_names_the_arrays_that_can_be_gathered(sim: Simulator) -> None:
    for name, hint in (
        ("threshold", 'a number has the values of all slices on each rank: sim["V1"]["threshold"]'),
        ("histroy", "did you mean history?"),
    ):
        with pytest.raises(UnknownName) as raised:
            sim["V1"].gather(name)
        expected = (
            f"layers.V1 has no array {name}\n    expected: {', '.join(sim['V1'])}\n    hint:     {hint}"
        )
        assert str(raised.value) == expected


def test_an_error_on_one_rank_undoes_the_steps_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    fails, here = True, threading.local()
    monkeypatch.setattr(simulator, "connect", lambda mpi: here.comm)
    monkeypatch.setattr(simulator, "assert_same_software", lambda comm, loaded: None)  # they are threads

    def event(step: int, slices: Sequence[int]) -> None:
        if fails and step == 13 and 2 in slices:  # the slice of the second rank
            raise RuntimeError("no")

    net = troubled(event)
    apart = threading.Barrier(2)

    def rank(comm: Serial) -> np.ndarray:
        nonlocal fails
        here.comm = comm
        with Simulator(net, threads=1) as sim:
            sim.step(10)
            before = np.array(sim["V1"]["V"])
            with pytest.raises(PetabatchError, match="no") as raised:
                sim.step(10)
            assert isinstance(raised.value, PartError) == (comm.rank == 1)
            assert comm.rank == 1 or "rank 1 has failed" in str(raised.value)
            assert sim.n_steps == 10
            np.testing.assert_array_equal(sim["V1"]["V"], before)
            apart.wait()
            fails = False
            sim.step(30)
            return sim["V1"].gather("V")

    found = on_threads(2, rank)
    here.comm = Serial()
    with Simulator(net) as alone:
        alone.step(40)
        for values in found:
            np.testing.assert_array_equal(values, alone["V1"]["V"])


def test_an_interrupt_of_another_rank_ends_the_steps_of_this_one() -> None:
    class Interrupted(Serial):
        """Ranks of which another one is interrupted."""

        def any(self, flags: int) -> int:
            return flags | 1

    with pytest.raises(KeyboardInterrupt), Interrupts(Interrupted()) as interrupts:
        interrupts.answer()


@pytest.mark.usefixtures("handled")
def test_the_same_interrupt_is_raised_once_where_its_signal_comes_later() -> None:
    class Interrupted(Serial):
        """Ranks of which another one has got the signal first."""

        def any(self, flags: int) -> int:
            threading.Timer(0.02, press).start()
            return flags | 1

    with pytest.raises(KeyboardInterrupt), Interrupts(Interrupted()) as interrupts:
        interrupts.answer()
    time.sleep(0.15)


@pytest.fixture
def handled() -> Iterator[None]:
    """Have Python's own handler of Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("handled")
def test_an_interrupt_between_blocks_of_steps_waits_for_all_ranks(
    sim: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raised on one rank at once, the others would wait for it forever."""
    asked: list[int] = []
    monkeypatch.setattr(Serial, "any", lambda self, flags: asked.append(flags) or flags)
    stops = Running.next_sync

    def next_sync(self: Running) -> int:
        if self.step == 20:
            press()
        return stops(self)

    monkeypatch.setattr(Running, "next_sync", next_sync)
    with pytest.raises(KeyboardInterrupt):
        sim.step(60)
    assert asked == [0, 1]
    assert sim.n_steps == 40


@pytest.mark.usefixtures("handled")
def test_an_interrupt_of_a_callback_is_not_put_off(sim: Simulator) -> None:
    reached: list[int] = []

    def pressed(sim: Simulator) -> None:
        if sim.n_steps == 10:
            press()
        reached.append(sim.n_steps)

    sim.callback(pressed, every=[10, 15])
    with pytest.raises(KeyboardInterrupt):
        sim.step(30)
    assert (reached, sim.n_steps) == ([], 10)
    sim.step(10)
    assert (reached, sim.n_steps) == ([15], 20)


def test_times_by_activity_go_on_when_a_number_changes_and_are_in_the_results(sim: Simulator) -> None:
    sim.step(40)
    before = sim.times
    assert before["steps"] > 0
    sim["V1"]["threshold"] = 0.2
    sim.step(40)
    assert all(sim.times[name] >= before[name] for name in before)
    assert sim.times["steps"] > before["steps"]
    assert sim.results.attributes["times"].keys() == sim.times.keys()
