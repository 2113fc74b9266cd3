"""Values over time: thresholds and rates that follow displays, updates and steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, simulation
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.network.over_time import next_change, values_at
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.over_time import OverTime
from petabatch.spec.schedule import NEVER, Every
from petabatch.spec.sweep import Sweep
from support.commands import Command, alone, contents
from support.networks import collect, images, lca_network, simulate
from support.programs import random_network

THRESHOLD, RATE = "layers.V1.threshold", "connections.dictionary.learn.rate"
KERNELS = ("array", "dense", "lazy")


def with_values(network: Network, **tables: Any) -> Network:
    """Return a network with values over time."""
    return network.model_copy(
        update={"over_time": {path: OverTime(**table) for path, table in tables.items()}}
    )


def with_threshold(network: Network, value: float) -> Network:
    layers = {**network.layers, "V1": network.layers["V1"].model_copy(update={"threshold": value})}
    return network.model_copy(update={"layers": layers})


@pytest.mark.parametrize("by", ["display", "step", "step of display"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_constant_table_equals_none(kernel: str, by: str) -> None:
    net = lca_network(images(2), kernel=kernel, displays=3)
    table = {"at": [1, 2, 5], "values": [0.4] * 3, "by": by, "interpolate": "linear"}
    rate = {"at": [1, 3], "values": [0.3, 0.3]}
    plain, varied = simulate(net), simulate(with_values(net, **{THRESHOLD: table, RATE: rate}))
    for path, values in plain[1].items():
        assert np.array_equal(varied[1][path], values), path
    for key, values in plain[0].state.saved().items():
        assert np.array_equal(varied[0].state.arrays[key], values), key


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_display_has_the_bits_of_a_run_resumed_with_its_value(kernel: str) -> None:
    net = lca_network(images(2), kernel=kernel, displays=3, learn=False)
    table = {"at": [1, 2, 3], "values": [0.5, 0.3, 0.4]}
    _, varied = simulate(with_values(net, **{THRESHOLD: table}))
    state: dict[str, np.ndarray] = {}
    for display, value in enumerate(table["values"]):
        engine = Engine(schedule(build(with_threshold(net, value))), Serial(), 1)
        engine.start()
        if state:
            engine.resume(20 * display, state)
        for step in drive(engine):
            if step == 20 * (display + 1):
                break
        engine.collect()
        state = {key: array.copy() for key, array in engine.state.saved().items()}
        if kernel == "lazy":
            state["lazy/V1/decay"][...] = 0  # a slice begins again from V
        found = engine.state.arrays["layers/V1/V"]
        np.testing.assert_array_equal(varied["layers/V1/V"][display], found)


def test_linear_values_change_in_every_step() -> None:
    net = lca_network(images(1), learn=False, displays=1, kernel="array", record=Every(1))
    table = {"at": [1, 11], "values": [0.9, 0.4], "by": "step", "interpolate": "linear"}
    found = in_memory.run(with_values(net, **{THRESHOLD: table})).recorded
    for step in range(1, 21):
        expected = max(0.4, 0.9 - 0.05 * (step - 1))
        a, v = (found[f"layers/V1/{name}"][step - 1] for name in "AV")
        active = a != 0
        if active.any():
            np.testing.assert_allclose((v - a)[active], expected, rtol=2e-5)
    unseen = lca_network(images(1), learn=False, displays=1, kernel="array").model_copy(update={"probes": {}})
    last = in_memory.run(with_values(unseen, **{THRESHOLD: table})).recorded["layers/V1/V"]
    assert np.array_equal(last[-1], found["layers/V1/V"][-1])


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_rates_follow_the_number_of_the_update(mode: str) -> None:
    net = lca_network(images(2), mode=mode, momentum=0.0, displays=4)
    still = with_values(net, **{RATE: {"at": [1, 3], "values": [0.3, 0.0]}})
    found = in_memory.run(still).recorded["connections/dictionary/weights"]
    plain = in_memory.run(net).recorded["connections/dictionary/weights"]
    assert np.array_equal(found[:3], plain[:3])
    assert np.allclose(found[3:], found[2], atol=1e-6)
    assert not np.allclose(plain[3], plain[2], atol=1e-3)


def test_values_over_time_that_need_another_variable_are_refused() -> None:
    net = lca_network(images(2), momentum=0.0, displays=4)
    table = {"at": [1, 3], "values": [0.0, 0.5]}
    with pytest.raises(
        ParamsError, match=r"the values of step \d+ need other variables .*(?s:.)*momentum as well"
    ):
        in_memory.run(with_values(net, **{RATE.replace("rate", "momentum"): table}))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_resumed_run_equals_an_uninterrupted_one_before_and_after_a_change(kernel: str) -> None:
    table = {"at": [1, 25, 41], "values": [0.6, 0.3, 0.5], "by": "step"}
    rate = {"at": [1, 2], "values": [0.3, 0.1]}
    net = with_values(lca_network(images(3), kernel=kernel, mode="shared"), **{THRESHOLD: table, RATE: rate})
    whole, recorded = simulate(net)
    for stop in (24, 30, 40):
        first = Engine(replace(schedule(build(net)), stops=(stop,)), Serial(), 2)
        first.start()
        for step in drive(first):
            if step == stop:
                break
        first.collect()
        saved = {key: array.copy() for key, array in first.state.saved().items()}
        second = Engine(schedule(build(net)), Serial(), 1)
        second.resume(stop, saved)
        later = collect(second)
        for key, array in whole.state.saved().items():
            np.testing.assert_array_equal(second.state.arrays[key], array, err_msg=f"{key}, {stop}")
        for path, values in later.items():
            np.testing.assert_array_equal(values, recorded[path][-len(values) :], err_msg=path)


@pytest.mark.parametrize("seed", range(3))
def test_programs_follow_values_as_layers_do(seed: int) -> None:
    net = random_network(seed)
    tables = {
        f"layers.{name}.tau": {"at": [1, 9], "values": [layer.tau, 2 * layer.tau], "by": "step"}
        for name, layer in net.layers.items()
        if "tau" in type(layer).model_fields
    }
    tables |= {
        f"connections.{name}.strength": {
            "at": [1, 3], "values": [c.strength, 0.5 * c.strength], "by": "step of display",
        }
        for name, c in net.connections.items()
    }  # fmt: skip
    found = {}
    for kernel in ("array", "auto"):
        run = net.run.model_copy(update={"kernel": kernel, "steps": 16})
        one = with_values(net.model_copy(update={"run": run}), **tables)
        found[kernel] = in_memory.run(one, at=[16]).states
    for key, values in found["array"].items():
        if key.startswith("layers/"):
            scale = max(1.0, float(np.abs(values).max()))
            np.testing.assert_allclose(found["auto"][key], values, atol=2e-4 * scale, err_msg=key)


def test_points_of_a_sweep_follow_values_as_their_runs_do() -> None:
    net = lca_network(images(2), learn=False, displays=2)
    table = {"at": [1, 20], "values": [0.9, 0.4], "by": "step of display", "interpolate": "linear"}
    net = with_values(net, **{THRESHOLD: table})
    swept = net.model_copy(update={"sweep": Sweep(layers={"V1": {"tau": [10.0, 20.0]}})})
    found = in_memory.run(swept, threads=2).recorded["layers/V1/A"]
    for point in range(2):
        own = in_memory.run(sliced(swept, 2 * point)).recorded["layers/V1/A"]
        assert np.array_equal(found[:, 2 * point : 2 * point + 2], own)


def test_times_of_steps() -> None:
    net = lca_network(images(1), display=10, displays=6)
    by = {"at": [2, 4], "values": [1.0, 2.0]}
    net = with_values(
        net,
        **{
            THRESHOLD: {**by, "interpolate": "linear"},
            "layers.V1.tau": {**by, "by": "step of display"},
            RATE: by,
        },
    )
    steps = (0, 1, 10, 11, 21, 31, 60)
    assert [values_at(net, step)[THRESHOLD] for step in steps] == [1, 1, 1, 1, 1.5, 2, 2]
    assert [values_at(net, step)["layers.V1.tau"] for step in (1, 3, 4, 10, 11, 14)] == [1, 1, 2, 2, 1, 2]
    # the update at step 10 is number 1
    assert [values_at(net, step)[RATE] for step in (10, 11, 30, 31, 40)] == [1, 1, 1, 2, 2]
    for path, table in net.over_time.items():
        one = net.model_copy(update={"over_time": {path: table}})
        step, seen = 1, {1}
        while (following := next_change(one, step)) is not None and following <= 60:
            assert following > step
            step = following
            seen.add(step)
        changed = {s for s in range(2, 61) if values_at(one, s) != values_at(one, s - 1)}
        assert changed <= seen


def test_a_rate_of_weights_that_never_learn_never_changes() -> None:
    net = lca_network(images(1), displays=2)
    owner = net.connections["dictionary"]
    learn = owner.learn.model_copy(update={"every": NEVER})  # type: ignore[attr-defined]
    still = {"dictionary": owner.model_copy(update={"learn": learn})}
    net = net.model_copy(update={"connections": {**net.connections, **still}})
    net = with_values(net, **{RATE: {"at": [1, 2, 4], "values": [0.3, 0.2, 0.1]}})
    assert next_change(net, 1) is None  # a step that is not after this one would be waited for without end
    simulate(net)


def test_ranks_change_nothing(small: Path, petabatch: Command) -> None:
    changing = (
        "layers.V1.threshold={at=[1,31,45],values=[0.6,0.3,0.4],by='step',interpolate='linear'}",
        "connections.dictionary.learn.rate={at=[1,4],values=[0.5,0.1]}",
    )
    alone(small, "one", *changing)
    done = petabatch("run", small, "--out", "two", "-q", "-s", changing[0], "-s", changing[1], ranks=2)
    assert done.returncode == 0, done.stderr
    assert contents(small.parent / "two" / "run.h5") == contents(small.parent / "one" / "run.h5")
    (small.parent / "two" / "checkpoints" / "step_000000060.h5").unlink()
    simulation.resume(small.parent / "two", mpi=False, quiet=True)
    assert contents(small.parent / "two" / "run.h5") == contents(small.parent / "one" / "run.h5")


@pytest.mark.parametrize(
    ("path", "table", "message"),
    [
        ("layers.V1.shape", {"at": [1], "values": [1.0]}, "this cannot change over time"),
        ("layers.V1.tua", {"at": [1], "values": [1.0]}, "there is no such key"),
        ("layers.V2.tau", {"at": [1], "values": [1.0]}, "there is no layer V2"),
        ("layers.V1.tau", {"at": [1, 2], "values": [1.0, -1.0]}, "value 1 (from 0): "),
        ("layers.V1.tau", {"at": [1], "values": [1.0], "by": "update"}, "updates are counted"),
    ],
)
def test_wrong_keys_and_values_are_errors(path: str, table: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamsError) as raised:
        build(with_values(lca_network(images(1)), **{path: table}))
    (problem,) = raised.value.problems
    assert problem.key.startswith(path)
    assert message in problem.message
