"""Neurons in equations: a step by hand, arrays against rows, parameters, connections, records and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity, Potential, Sparse
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.equations.functions import CALLED
from petabatch.errors import ParamsError
from petabatch.layers import Constant, Input, LeakyIntegrator, Neurons
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.report.explain import explain
from petabatch.spec.load import Loaded, parse, resolved
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, Connection, Layer
from petabatch.spec.sweep import Sweep
from petabatch.weights import Uniform
from petabatch.weights.random import Constant as ConstantWeights
from support.networks import GivenImages
from support.rank_threads import on_threads

N = 300
"""More units than a chunk of a compiled step has."""
CUBA_TEXT = """
    dv/dt  = (ge + gi - (v + 49)) / tau : unless refractory
    dge/dt = -ge / 5
    dgi/dt = -gi / 10
"""
CUBA: dict[str, Any] = {
    "equations": CUBA_TEXT,
    "parameters": {"tau": 20.0},
    "spike": "v > -50",
    "reset": "v = -60",
    "refractory": 2.0,
    "start": {"v": Uniform(low=-60.0, high=-50.0), "ge": Uniform(high=9.0), "gi": 1.0},
}


FUNCTIONS = " + ".join(
    [f"{name}(x + 0.1)" for name, one in CALLED.items() if one.arguments == 1 and not one.of_conditions]
    + [
        "int(x > 1 or not y < 0)",
        "min(x, 1)",
        "max(x, 1)",
        "clip(x, 0.7, 0.8)",
        "x % 0.7",
        "x ** y",
        "x ** -2",
    ]
)
"""All functions of equations; where they jump, at few starts."""


def recorded(net: Network, threads: int | None = None) -> Mapping[str, np.ndarray]:
    return in_memory.run(net, threads=threads).recorded


def alone(
    layer: Neurons, steps: int = 50, variables: tuple[str, ...] = ("A",), **run: Any
) -> Mapping[str, np.ndarray]:
    """Return what a layer without connections does, `[step, slice, unit]`."""
    output = Output(layers={"n": LayerOutput(every=STEP, variables=variables)})
    net = Network(run=Run(**{"steps": steps, "dt": 0.1, **run}), layers={"n": layer}, output=output)
    return {key.rpartition("/")[2]: np.asarray(one)[:, :, 0, 0] for key, one in recorded(net).items()}


def balanced(**keys: Any) -> Network:
    """Return two populations that excite and inhibit each other, of three slices."""
    layers: dict[str, Layer] = {
        "e": Neurons(shape=(1, 1, N), **CUBA),
        "i": Neurons(shape=(1, 1, N // 4), **CUBA),
    }
    connections: dict[str, Connection] = {}
    for pre, target, weight in (("e", "ge", 1.62), ("i", "gi", -9.0)):
        for post in layers:
            connections[f"{pre}{post}"] = Sparse(
                pre=pre, post=post, target=target, probability=0.05, init=ConstantWeights(value=weight)
            )
    output = Output(layers={"e": LayerOutput(every=STEP, variables=("A", "v")), "i": LayerOutput(every=STEP)})
    run = Run(**{"batch": 3, "steps": 200, "dt": 0.1, **keys})
    return Network(run=run, layers=layers, connections=connections, output=output)


def test_a_step_is_arrivals_reset_integration_threshold() -> None:
    """A unit that spikes by what arrives, by hand: the reset, the pause and the blocked arrivals."""
    arrives = np.zeros((1, 12, 1, 1, 1), np.float32)
    arrives[0, [2, 3, 4, 5, 8], ...] = 3.0
    layers: dict[str, Layer] = {
        "x": Input(shape=(1, 1, 1), source=GivenImages(data=arrives)),
        "n": Neurons(
            shape=(1, 1, 1),
            equations="dv/dt = 0.5 : unless refractory\ndw/dt = 1",
            spike="v > 3", reset="v = 0.25; w = w / 2", refractory=3.0, method="euler",
        ),
    }  # fmt: skip
    connections = {
        "in": Identity(pre="x", post="n", target="v"),
        "to_w": Identity(pre="x", post="n", target="w"),
    }
    output = Output(layers={"n": LayerOutput(every=STEP, variables=("A", "v", "w", "refractory"))})
    net = Network(run=Run(steps=12, display=1), layers=layers, connections=connections, output=output)
    found = {
        key.rpartition("/")[2]: np.asarray(one).ravel() for key, one in recorded(net).items() if "/n/" in key
    }
    # Step 3: 1 + 3 + 0.5 spikes. Step 4: its reset, what arrives is lost; steps 4 and 5 pause, step 6 does
    # not: a refractory time of 3 steps ends at the third after the spike, when arrivals count again.
    v = [0.5, 1, 4.5, 0.25, 0.25, 0.75, 1.25, 1.75, 5.25, 0.25, 0.25, 0.75]
    np.testing.assert_allclose(found["v"], v)
    np.testing.assert_array_equal(found["A"], [0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(found["refractory"], [0, 0, 3, 2, 1, 0, 0, 0, 3, 2, 1, 0])
    np.testing.assert_allclose(found["w"], [1, 2, 6, 5.5, 9.5, 13.5, 14.5, 15.5, 19.5, 10.75, 11.75, 12.75])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("linear", CUBA),
        ("conductances", {**CUBA, "equations": CUBA_TEXT.replace("gi -", "gi * (-80 - v) -")}),
        ("rk4", {"equations": "dx/dt = y\ndy/dt = k * (1 - x ** 2) * y - x + sin(t)",
                 "parameters": {"k": 1.5},
                 "start": {"x": Uniform(low=-1.0, high=1.0)}, "activity": "x + 2 * y"}),
        ("heun", {"equations": "dx/dt = exp(-x) - clip(x, 0, 1) * c\nc = 1 if x > 0.5 else tanh(t)",
                  "method": "heun"}),
        ("noise", {"equations": "dx/dt = -x / 5 + s * x * xi + 0.1 * xi_2", "parameters": {"s": Uniform()}}),
        ("noise of exact", {"equations": "dx/dt = -x / 5 + xi : unless refractory\n"
                                         "dy/dt = (x - y) / 3 + xi / 2",
                            "method": "exact", "spike": "x > 0.5", "reset": "x = 0", "refractory": 0.5}),
        ("noise of rk4", {"equations": "dx/dt = -x ** 3 + s * sin(t) * xi", "parameters": {"s": Uniform()},
                          "method": "rk4"}),
        ("functions", {"equations": f"dx/dt = cos(x + y) / 10\ndy/dt = ({FUNCTIONS}) / 20 - y",
                       "method": "euler", "start": {"x": Uniform(low=0.6, high=0.9), "y": 0.3}}),
        ("map", {"equations": "dx/dt = -x",
                 "spike": "x > 0.5 or t < 1 and not x < -3", "reset": "x = -t; x *= 2"}),
    ],
)  # fmt: skip
def test_rows_and_arrays_agree(name: str, keys: dict[str, Any]) -> None:
    layer = Neurons(shape=(1, 3, N // 3), **keys)
    compiled = alone(layer, variables=("A", *layer.step.system.variables))
    reference = alone(
        layer, variables=("A", *layer.step.system.variables), precision="float64", kernel="array"
    )
    for key, one in compiled.items():
        scale = np.abs(reference[key]).max()
        np.testing.assert_allclose(one, reference[key], rtol=0, atol=2e-5 * scale, err_msg=key)
        assert scale > 0 or key == "A"


@pytest.mark.parametrize(
    "text",
    ["sin(2 * pi * t / 2)", "sin(omega * t + phi)", "sin(turn)", "sin(each * t)", "t % omega", "x"],
)
def test_phases_are_as_right_late_as_early(text: str) -> None:
    """At t = 9e5, where rounding pi or the time to float32 shifts them by 0.03 to 0.08 rad."""
    layer = Neurons(
        shape=(1, 1, 3),
        equations="turn = omega * (t + 0.3) / 2\ndx/dt = cos(2 * pi * t / 2) / dt",
        parameters={"omega": 0.7, "phi": 0.4, "each": ConstantWeights(value=0.75)},
        activity=text, method="rk4", start={"x": 0.5},
    )  # fmt: skip
    found = {
        (kernel, precision): alone(layer, 11, ("A",), kernel=kernel, precision=precision, dt=90_000.3)["A"]
        for kernel, precision in (("auto", "float32"), ("array", "float32"), ("array", "float64"))
    }
    for one in found.values():
        np.testing.assert_allclose(one, found["array", "float64"], atol=2e-6)


@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize("parameter", [0.7, ConstantWeights(value=0.7)])
@pytest.mark.parametrize("activity", ["k", "same", "other", "dt", "same * dt"])
def test_an_activity_may_be_a_parameter_or_the_step(kernel: str, parameter: Any, activity: str) -> None:
    layer = Neurons(
        shape=(1, 1, 2), equations="dv/dt = -v\nsame = k\nother = 0.7", parameters={"k": parameter},
        activity=activity,
    )  # fmt: skip
    output = Output(layers={"n": LayerOutput(every=STEP)})
    run = Run(steps=2, kernel=kernel)
    net = Network(run=run, layers={"n": layer}, output=output, sweep=Sweep(values={"run.dt": (0.25, 0.5)}))
    result = in_memory.run(net, at=[0])
    wanted = np.array([0.25, 0.5]) if "dt" in activity else np.ones(2)
    wanted = wanted.reshape(2, 1, 1, 1) * (1 if activity == "dt" else 0.7) * np.ones((2, 1, 1, 2))
    np.testing.assert_allclose(result.states["layers/n/A"][0].reshape(wanted.shape), wanted, rtol=1e-6)
    for step in result.recorded["layers/n/A"]:
        np.testing.assert_allclose(step, wanted, rtol=1e-6)


def test_bits_do_not_depend_on_batch_and_threads() -> None:
    whole = recorded(balanced(), threads=2)
    assert np.asarray(whole["layers/e/A"]).sum() > 100
    single = recorded(balanced(), threads=1)
    for key, one in whole.items():
        np.testing.assert_array_equal(one, single[key], err_msg=key)
    first = recorded(balanced(batch=1))
    for key, one in first.items():
        np.testing.assert_array_equal(np.asarray(one)[:, 0], np.asarray(whole[key])[:, 0], err_msg=key)


@pytest.mark.parametrize("ranks", [2, 3])
def test_bits_do_not_depend_on_ranks(ranks: int) -> None:
    def final(comm: Comm) -> dict[str, np.ndarray]:
        engine = Engine(schedule(build(balanced(steps=60))), comm, 1)
        engine.start()
        for _ in drive(engine):
            pass
        engine.collect()
        return {key: array.copy() for key, array in engine.state.arrays.items() if key.startswith("layers/")}

    whole, parts = final(Serial()), on_threads(ranks, final)
    for key, one in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[key] for part in parts]), one, err_msg=key)


def test_a_run_goes_on_from_its_state_with_spikes_under_way() -> None:
    delayed = {
        name: one.model_copy(update={"delay_steps": 7}) for name, one in balanced().connections.items()
    }
    net = balanced(steps=120).model_copy(update={"connections": delayed})
    half = net.model_copy(update={"run": net.run.model_copy(update={"steps": 61})})
    whole, first = in_memory.run(net), in_memory.run(half)
    second = in_memory.run(net, start=first.end)
    assert np.asarray(whole.recorded["layers/e/A"])[54:61].any()
    for key, one in whole.recorded.items():
        both = np.concatenate([np.asarray(first.recorded[key]), np.asarray(second.recorded[key])])
        np.testing.assert_array_equal(both, one, err_msg=key)


def test_noise_is_that_of_seed_slice_and_step() -> None:
    layer = Neurons(shape=(1, 1, N), equations="dx/dt = -x / 5 + xi")
    found = alone(layer, 400, ("x",), batch=3, dt=0.5)["x"]
    np.testing.assert_array_equal(found[:, :2], alone(layer, 400, ("x",), batch=2, dt=0.5)["x"])
    assert not np.array_equal(found[:, 0], found[:, 1])
    arrays = alone(layer, 20, ("x",), batch=3, dt=0.5, kernel="array")["x"]
    np.testing.assert_allclose(arrays, found[:20], atol=1e-5)
    assert found[100:].std() == pytest.approx(
        np.sqrt(5 / 2 / (1 - 0.5 / 5 / 2)), rel=0.03
    )  # of its recurrence


def test_a_connection_delivers_in_the_next_step_at_the_earliest_and_closes_no_cycle() -> None:
    spiking = {"equations": "dv/dt = 1", "spike": "v >= 3", "reset": "v = 0", "method": "euler"}
    layers: dict[str, Layer] = {
        "a": Neurons(shape=(1, 1, 2), **spiking),
        "b": Neurons(shape=(1, 1, 2), equations="dx/dt = 0 * x\ndy/dt = I", currents=("I",), activity="x"),
        "c": LeakyIntegrator(shape=(1, 1, 2), tau=1e-3),
        "k": Constant(shape=(1, 1, 2), value=0.0),
    }
    connections: dict[str, Connection] = {
        "ab": Identity(pre="a", post="b", target="x"),
        "aI": Identity(pre="a", post="b", target="I", delay_steps=2, strength=2.0),
        "ba": Identity(pre="b", post="a", target="v", strength=0.0),
        "ac": Identity(pre="a", post="c"),
        "kc": Identity(pre="k", post="c"),  # which is on a later level than a therefore
    }
    output = Output(
        layers={n: LayerOutput(every=STEP) for n in "abc"}
        | {"b": LayerOutput(every=STEP, variables=("A", "y"))}
    )
    net = Network(run=Run(steps=8), layers=layers, connections=connections, output=output)
    found = {key: np.asarray(one)[:, 0, 0, 0, 0] for key, one in recorded(net).items()}
    np.testing.assert_array_equal(found["layers/a/A"], [0, 0, 1, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(found["layers/b/A"], [0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(found["layers/b/y"], [0, 0, 0, 0, 0, 2, 2, 2])  # not multiplied by dt twice
    np.testing.assert_allclose(found["layers/c/A"], [0, 0, 0, 1, 0, 0, 1, 0], atol=1e-6)


def test_parameters_differ_among_units_slices_points_and_over_time() -> None:
    each = Neurons(
        shape=(1, 1, 4),
        equations="dx/dt = k * r",
        parameters={"k": 2.0, "r": Uniform(low=1.0, high=2.0)},
        method="euler",
    )
    output = Output(layers={"n": LayerOutput(every=STEP, variables=("x", "r"))})

    def found(**keys: Any) -> np.ndarray:
        net = Network(
            run=Run(batch=keys.pop("batch", 1), steps=2, display=1), layers={"n": each}, output=output, **keys
        )
        one = recorded(net)
        return np.asarray(one["layers/n/x"])[:, :, 0, 0] / np.asarray(one["layers/n/r"])[:, :, 0, 0]

    path = "layers.n.parameters.k"
    np.testing.assert_allclose(found()[:, 0, 0], [2, 4], rtol=1e-6)
    np.testing.assert_allclose(found(batch=3, slices={path: (1.0, 2.0, 3.0)})[1, :, 0], [2, 4, 6], rtol=1e-6)
    np.testing.assert_allclose(found(sweep=Sweep(values={path: (1.0, 5.0)}))[1, :, 0], [2, 10], rtol=1e-6)
    times = {path: {"at": (1, 2), "values": (1.0, 3.0), "by": "step"}}
    np.testing.assert_allclose(found(over_time=times)[:, 0, 0], [1, 4], rtol=1e-6)
    wrong = Network(
        run=Run(batch=2, steps=2), layers={"n": each}, slices={"layers.n.parameters.kk": (1.0, 2.0)}
    )
    with pytest.raises(ParamsError, match=r"parameters\.k"):
        build(wrong)


def test_the_propagator_follows_parameters_and_steps_of_slices() -> None:
    layer = Neurons(shape=(1, 1, 2), equations="dx/dt = -x / tau", parameters={"tau": 5.0}, start={"x": 1.0})
    output = Output(layers={"n": LayerOutput(every=STEP, variables=("x",))})
    sweep = Sweep(values={"layers.n.parameters.tau": (5.0, 10.0), "run.dt": (0.1, 0.2)})
    net = Network(run=Run(steps=3), layers={"n": layer}, output=output, sweep=sweep)
    found = np.asarray(recorded(net)["layers/n/x"])[-1, :, 0, 0, 0]
    exact = [np.exp(-3 * dt / tau) for tau in (5, 10) for dt in (0.1, 0.2)]
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_a_code_of_the_lca_can_be_written_as_equations() -> None:
    from petabatch.layers import LCA

    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 1, 1, 1, 8)).astype(np.float32)
    layers: dict[str, Layer] = {"x": Input(shape=(1, 1, 8), source=GivenImages(data=image))}
    layers["lca"] = LCA(shape=(1, 1, 8), tau=10.0, threshold=0.3)
    layers["own"] = Neurons(
        shape=(1, 1, 8),
        equations="a = u - 0.3 if u > 0.3 else 0\nk = (1 - exp(-dt / 10)) / dt\ndu/dt = k * (b - u + a)",
        currents=("b",), activity="a", method="euler",
    )  # fmt: skip
    connections: dict[str, Connection] = {
        "in": Identity(pre="x", post="lca"),
        "own_in": Identity(pre="x", post="own", target="b"),
    }
    output = Output(layers={name: LayerOutput(every=STEP) for name in ("lca", "own")})
    net = Network(run=Run(steps=200), layers=layers, connections=connections, output=output)
    found = recorded(net)
    lca, own = (np.asarray(found[f"layers/{name}/A"])[-1] for name in ("lca", "own"))
    assert lca.any()
    np.testing.assert_allclose(own, lca, rtol=1e-5)


def test_a_network_is_the_same_after_it_is_written_as_json() -> None:
    import json

    net = balanced()
    again = Loaded.from_json(json.dumps(resolved(net)), "params.json").network
    assert resolved(again) == resolved(net)
    plans = [explain(schedule(build(one))) for one in (net, again)]
    assert plans[0] == plans[1]
    assert "method exact, because the equations are linear" in " ".join(plans[0].split())
    assert "P__v__ge * ge__1" in plans[0]


TEXT = """
[run]
steps = 3

[layers.x]
type = "neurons"
shape = [1, 1, 3]
equations = '''
dv/dt = -v / tua
'''
parameters = { tau = 3 }

[layers.y]
type = "neurons"
shape = [1, 1, 3]
equations = "dv/dt = -v"

[connections.a]
type = "identity"
pre = "y"
post = "y"
target = "w"

[connections.b]
type = "identity"
pre = "y"
post = "y"
"""


def test_errors_name_file_line_and_column_of_the_equation() -> None:
    with pytest.raises(ParamsError) as found:
        parse(TEXT, "net.toml")
    (problem,) = found.value.problems
    assert problem.key == "layers.x.equations"
    assert problem.line == 8
    assert problem.message.startswith("line 1, column 14: this name is not defined")
    assert (problem.found, problem.hint) == ("tua", "did you mean tau?")


def test_the_errors_of_a_file_have_all_names_that_are_not_defined() -> None:
    with pytest.raises(ParamsError) as found:
        parse(TEXT.replace("tua", "tua + sigma * a"), "net.toml")
    assert [one.found for one in found.value.problems] == ["tua", "sigma", "a"]


def test_targets_are_variables_and_currents_and_must_be_given() -> None:
    with pytest.raises(ParamsError) as found:
        build(parse(TEXT.replace("tua", "tau")).network)
    keys = {problem.key: problem for problem in found.value.problems}
    assert keys["connections.a.target"].expected == "v"
    assert "delivers" in keys["connections.b.target"].message
    leaky = TEXT.replace("tua", "tau").replace(
        'type = "neurons"\nshape = [1, 1, 3]\nequations = "dv/dt = -v"',
        'type = "leaky_integrator"\nshape = [1, 1, 3]\ntau = 2.0',
    )
    with pytest.raises(ParamsError, match="has channels"):
        build(parse(leaky).network)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"spike": "v"}, "spike"),
        ({"reset": "v = 1"}, "reset"),
        ({"refractory": 1.0}, "refractory"),
        ({"activity": "v", "spike": "v > 1"}, "activity"),
        ({"start": {"w": 1.0}}, "start"),
        ({"parameters": {"exp": 1.0}}, "parameters"),
        ({"parameters": {"I": 1.0}, "currents": ("I",)}, "currents"),
        ({"method": "exact", "equations": "dv/dt = -v ** 2"}, "method"),
        ({"every": 2}, "every"),
        ({"equations": "\n".join(f"dv{n}/dt = -v{n}" for n in range(20))}, "equations"),
        ({"refractory": -1.0}, "refractory"),
    ],
)
def test_each_key_is_checked(keys: dict[str, Any], key: str) -> None:
    with pytest.raises(ParamsError) as found:
        Neurons(**{"shape": (1, 1, 2), "equations": "dv/dt = -v", **keys})
    assert {problem.key for problem in found.value.problems} == {key}


def test_a_start_from_files_and_numbers_is_that_of_step_0() -> None:
    layer = Neurons(
        shape=(1, 1, 3),
        equations="dx/dt = 0 * x\ndy/dt = 0 * y",
        start={"x": 2.0, "y": Uniform(low=3.0, high=4.0)},
    )
    engine = Engine(schedule(build(Network(run=Run(steps=1), layers={"n": layer}))), Serial(), 1)
    engine.start()
    assert (engine.state.arrays["layers/n/x"] == 2).all()
    assert ((engine.state.arrays["layers/n/y"] >= 3) & (engine.state.arrays["layers/n/y"] <= 4)).all()
    assert (engine.state.arrays["layers/n/A"][:, 0] == 2).all()


def test_a_restart_by_a_film_keeps_the_parameters_of_units() -> None:
    layer = Neurons(
        shape=(1, 1, 2), equations="dx/dt = -k * x", parameters={"k": Uniform()}, start={"x": 3.0}
    )
    state = {name: np.full((1, 1, 1, 2), 7.0) for name in ("x", "k")}
    layer.restart(state, None)
    assert (state["x"] == 3).all()
    assert (state["k"] == 7).all()


def oscillators(kernel: str, *, once: bool, noise: float = 0.0) -> dict[str, np.ndarray]:
    """Return phases that see the mean sine and cosine of all, integrated once or in a layer for each."""
    phases = f"dphase/dt = w + 2 * (S * cos(phase) - C * sin(phase)) + {noise} * xi"
    shown = {"S": "sin(phase)", "C": "cos(phase)"}
    start = {"phase": np.linspace(0, 6, 40).reshape(1, 1, 40)}
    keys: dict[str, Any] = {"shape": (1, 1, 40), "parameters": {"w": 1.0}, "start": start}
    layers: dict[str, Layer] = {}
    connections: dict[str, Connection] = {}
    if once:
        layers["phases"] = Neurons(equations=phases, currents=("S", "C"), **keys)
    for name, activity in shown.items():
        layers[name] = (
            Neurons(shape=(1, 1, 40), equations=f"seen = {activity}", currents=("phase",))
            if once
            else Neurons(equations=phases, currents=("S", "C"), activity=activity, **keys)
        )
        if once:
            connections[f"phases_to_{name}"] = Potential(
                pre="phases", post=name, variable="phase", target="phase"
            )
    for pre in shown:
        for post in ("phases",) if once else tuple(shown):
            connections[f"{pre}_to_{post}"] = Sparse(
                pre=pre, post=post, target=pre, probability=1.0, init=ConstantWeights(value=1 / 40)
            )
    output = Output(layers={name: LayerOutput(every=STEP) for name in layers})
    run = Run(batch=2, steps=60, dt=0.05, kernel=kernel)
    return dict(recorded(Network(run=run, layers=layers, connections=connections, output=output)))


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_layers_show_several_functions_of_variables_that_are_integrated_once(kernel: str) -> None:
    once, twice = oscillators(kernel, once=True), oscillators(kernel, once=False)
    for name in ("S", "C"):
        np.testing.assert_allclose(once[f"layers/{name}/A"], twice[f"layers/{name}/A"], atol=2e-5)


def test_functions_of_variables_with_noise_belong_together() -> None:
    found = oscillators("auto", once=True, noise=0.3)
    phase = found["layers/phases/A"]
    np.testing.assert_allclose(found["layers/S/A"], np.sin(phase), atol=1e-6)
    np.testing.assert_allclose(found["layers/C/A"], np.cos(phase), atol=1e-6)
