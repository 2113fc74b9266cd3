"""Synapses that learn at spikes: against plain loops, compiled, in batches, on ranks, resumed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from petabatch import Simulator, in_memory
from petabatch.connections import Identity, Sparse
from petabatch.equations.synapses import SynapseTexts, read_model
from petabatch.errors import ArgumentError, ParamsError, TableError
from petabatch.layers import Constant, Linear, Neurons, Rectified, SpikeTimes
from petabatch.learning import Stdp, SynapticEquations
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.spec.over_time import OverTime
from petabatch.weights import Uniform
from support.synapse_model import Found, Slice, Synapse, simulate

DT, STEPS, EVERY = 0.5, 60, 12
PRE, POST = (2, 3, 2), (3, 1, 4)
PAIR: Mapping[str, Any] = {
    "on_pre": "x += 1; w -= 0.03 * y", "on_post": "y += 1; w += a * x", "traces": {"x": 8.0, "y": 5.0},
    "parameters": {"a": 0.02}, "bounds": (0.0, 1.0),
}  # fmt: skip
DEPENDENT: Mapping[str, Any] = {
    "on_pre": "x = 1; w -= 0.2 * w * y", "on_post": "y += 1 - 0.3 * y; w += 0.1 * (1 - w) * x",
    "traces": {"x": 8.0, "y": 5.0},
}  # fmt: skip
TRIPLET: Mapping[str, Any] = {
    "on_pre": "w -= y1 * (0.02 + 0.01 * x2); x1 += 1; x2 += 1",
    "on_post": "w += x1 * (0.01 + 0.02 * y2); y1 += 1\ny2 += 1",
    "traces": {"x1": 8.0, "x2": 30.0, "y1": 5.0, "y2": 20.0}, "bounds": (0.0, 1.0),
}  # fmt: skip
PLASTIC: Mapping[str, Any] = {
    "on_pre": "u += 0.4 * (1 - u); delivered = w * u * (1 - r); r += u * (1 - r)",
    "traces": {"u": 20.0, "r": 15.0},
}  # fmt: skip
ELIGIBLE: Mapping[str, Any] = {
    "on_pre": "x += 1; c -= 0.5 * y; w += 0.01 * c + last * 0.001; last = t",
    "on_post": "y += 1; c += x; w += 0.01 * c; n += 1",
    "traces": {"x": 8.0, "y": 5.0, "c": 40.0}, "variables": ("last", "n"), "bounds": (-1.0, 2.0),
}  # fmt: skip
RULES = {
    "pair": PAIR, "dependent": DEPENDENT, "triplet": TRIPLET, "plastic": PLASTIC, "eligible": ELIGIBLE
}  # fmt: skip


def network(
    rule: Mapping[str, Any], steps: int = STEPS, seed: int = 1, batch: int = 2, **keys: Any
) -> Network:
    """Return given spikes that reach units which spike alone; `s` sums up what arrives."""
    run = {"batch": batch, "display": 8, "dt": DT, **keys.pop("run", {})}
    rng = np.random.default_rng(seed)
    spikes = np.argwhere(rng.random((STEPS, int(np.prod(PRE)), 2)) < 0.12).astype(float)
    spikes[:, 0] *= DT
    units = Neurons(
        shape=POST, equations="dv/dt = (1.5 - v) / 3\nds/dt = 0 * s", spike="v > 1", reset="v = 0",
        start={"v": Uniform(per_slice=True)},
    )  # fmt: skip
    keys = {"probability": 0.5, "init": Uniform(low=0.2, high=0.8), **keys}
    keys.setdefault("mode", "non_shared")
    joined = Sparse(pre="pre", post="post", target="s", learn=learning(rule), **keys)
    names = joined.learned
    return Network(
        run=Run(steps=steps, seed=seed, **run),
        layers={"pre": SpikeTimes(shape=PRE, spikes=spikes), "post": units},
        connections={"c": joined},
        output=Output(
            layers={
                "pre": LayerOutput(every=1, variables=("A",)),
                "post": LayerOutput(every=1, variables=("A", "s")),
            },
            connections={"c": ConnectionOutput(every=1, variables=("weights", *names))},
        ),
    )


def learning(rule: Mapping[str, Any]) -> SynapticEquations:
    return SynapticEquations(**rule, every=EVERY)


def expected(
    net: Network,
    rule: Mapping[str, Any],
    recorded: Mapping[str, Any],
    factors: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> list[Found]:
    """Return what the plain loop makes of the spikes that were recorded, in each slice."""
    synapses, connection, several = build(net).synapses["c"], net.connections["c"], []
    pre = np.repeat(np.arange(synapses.ends.pre), np.diff(synapses.starts))
    delays = synapses.first.delays
    held = connection.owner is not None and connection.owner.mode == "extra_non_shared"
    for lane in range(net.batch):
        first = np.asarray(recorded["connections/c/weights"])[0]
        weights = first if held else first[lane]
        mine = [
            Synapse(int(i), int(j), float(w), 0 if delays is None else int(delays[k]))
            for k, (i, j, w) in enumerate(zip(pre, synapses.targets, weights, strict=True))
        ]
        spikes = [
            np.asarray(recorded[f"layers/{name}/A"])[:, lane].reshape(STEPS, -1) for name in ("pre", "post")
        ]
        seen = {name: activity[:, lane].reshape(STEPS, -1) for name, activity in factors.items()}
        several.append(Slice(rule, mine, *spikes, DT, connection.delay_steps, seen))
    return simulate(several, EVERY if held else None)


def assert_as_expected(net: Network, rule: Mapping[str, Any], tolerance: float) -> None:
    recorded = in_memory.run(net).recorded
    weights = np.asarray(recorded["connections/c/weights"])
    arrived = np.asarray(recorded["layers/post/s"])
    for lane, found in enumerate(expected(net, rule, recorded)):
        mine = weights[1:] if weights.ndim == 2 else weights[1:, lane]
        np.testing.assert_allclose(mine, found.weights, rtol=tolerance, atol=tolerance)
        sums = np.cumsum(found.arrives, axis=0)
        s = np.concatenate([np.zeros((1, sums.shape[1])), sums[:-1]])
        np.testing.assert_allclose(arrived[:, lane].reshape(STEPS, -1), s, rtol=tolerance, atol=tolerance)


KEYS: list[dict[str, Any]] = [
    {}, {"delays": Uniform(low=0.0, high=4.0), "delay_steps": 1}, {"mode": "extra_non_shared"}
]  # fmt: skip


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("name", RULES)
def test_synapses_change_as_in_a_plain_loop(name: str, keys: dict[str, Any]) -> None:
    exact = network(RULES[name], **keys, run={"precision": "float64", "kernel": "array"})
    assert schedule(build(exact)).method.by_layers
    assert_as_expected(exact, RULES[name], 1e-11)
    for precision, apart in (("float64", 1e-11), ("float32", 2e-5)):
        compiled = network(RULES[name], **keys, run={"precision": precision})
        method = schedule(build(compiled)).method
        assert method.stepper == "program"
        assert not method.program.interpreted
        assert_as_expected(compiled, RULES[name], apart)


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """Draw statements whose values stay small, so that rounding does not grow."""
    names = ("w", "p", "q", "z")
    number = st.integers(-10, 10).map(lambda n: f"{n / 10}")
    name = st.sampled_from(names)
    term = st.one_of(
        number,
        st.builds("{} * {}".format, number, name),
        st.builds("0.3 * {} * {}".format, name, name),
        st.builds("{} * exp(-abs({}))".format, number, name),
        st.builds("min({}, {})".format, name, number),
        st.builds("0.2 * a * {}".format, name),
    )
    value = st.lists(term, min_size=1, max_size=3).map(" + ".join)

    def text(targets: tuple[str, ...]) -> st.SearchStrategy[str]:
        target = st.sampled_from(targets)
        changes = st.builds("{} += 0.2 * clip({}, -1, 1)".format, target, value)
        sets = st.builds("{} = 0.5 * clip({}, -2, 2)".format, target, value)
        return st.lists(changes | sets, min_size=1, max_size=4).map("; ".join)

    everywhere = "p += 0.1; q += 0.1"  # each trace changes somewhere
    return {
        "on_pre": f"{draw(text((*names, 'delivered')))}; {everywhere if draw(st.booleans()) else 'p *= 0.5'}",
        "on_post": f"{draw(text(names))}; q = 0.7 * q + 0.1",
        "traces": {"p": draw(st.sampled_from((1.0, 6.0, 40.0))), "q": 10.0},
        "variables": ("z",),
        "parameters": {"a": 0.4},
        "bounds": draw(st.sampled_from((None, (-0.5, 0.7)))),
    }


LATE = {"delays": Uniform(low=0.0, high=3.0)}
TOGETHER = {"mode": "extra_non_shared"}
WAYS: list[dict[str, Any]] = [
    {}, {"delay_steps": 2}, LATE, {"delays": 0.9, "delay_steps": 1}, TOGETHER, TOGETHER | LATE
]  # fmt: skip
ways = st.sampled_from(WAYS)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rules(), ways, st.integers(1, 99))
def test_random_rules_change_synapses_as_a_plain_loop(
    rule: dict[str, Any], keys: dict[str, Any], seed: int
) -> None:
    assert_as_expected(network(rule, seed=seed, **keys, run={"precision": "float64"}), rule, 1e-9)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rules(), ways, st.integers(1, 99))
def test_random_rules_compiled_change_synapses_as_a_plain_loop(
    rule: dict[str, Any], keys: dict[str, Any], seed: int
) -> None:
    assert_as_expected(network(rule, seed=seed, **keys), rule, 2e-4)


def test_variables_that_are_the_same_at_all_synapses_of_a_unit_are_kept_once_for_it() -> None:
    texts = SynapseTexts(
        "x += a; w -= y; z += w; k = t; c += x", "y = 1 + b * y; w += x; c -= y",
        ("x", "y", "c"), ("z", "k", "d"),
        ("a", "b"), drawn=frozenset({"d"}),
    )  # fmt: skip
    places = read_model(texts).places
    assert places == {
        "x": "pre", "y": "post", "c": "synapse", "z": "synapse", "k": "pre", "d": "synapse"
    }  # fmt: skip
    late = read_model(texts._replace(delayed=True)).places
    assert late == {**places, "x": "synapse", "k": "synapse"}
    net = network(PAIR)
    shapes = {name: one.shape for name, one in build(net).variables.items()}
    assert shapes["connections/c/x"] == shapes["connections/c/changed_pre"] == PRE
    assert shapes["connections/c/y"] == POST
    assert "connections/c/changed" not in shapes


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("single", [True, False])
def test_a_third_factor_is_read_at_events(single: bool, precision: str) -> None:
    rule = {
        "on_pre": "x += 1; w += 0.02 * r * y", "on_post": "y += 1; w += 0.03 * (r - 0.1) * x",
        "traces": {"x": 8.0, "y": 5.0}, "factors": {"r": "reward"},
    }  # fmt: skip
    shape = (1, 1, 1) if single else POST
    reward = Neurons(
        shape=shape, equations="dr/dt = -r / 10 + 0.3 * sin(t)", start={"r": Uniform(low=0.5, high=1.0)}
    )
    net = network(rule, run={"precision": precision})
    net = net.model_copy(
        update={
            "layers": {**net.layers, "reward": reward},
            "output": Output(
                layers={**net.output.layers, "reward": LayerOutput(every=1)},
                connections=net.output.connections,
            ),
        }
    )
    recorded = in_memory.run(net).recorded
    activity = {"r": np.asarray(recorded["layers/reward/A"])}
    for lane, found in enumerate(expected(net, rule, recorded, activity)):
        weights = np.asarray(recorded["connections/c/weights"])[1:, lane]
        tolerance = 1e-12 if precision == "float64" else 1e-5
        np.testing.assert_allclose(weights, found.weights, atol=tolerance)


def test_a_factor_that_nothing_else_reads_is_made_in_each_step() -> None:
    rule = {"on_pre": "x += 1", "on_post": "w += 0.03 * r * x", "traces": {"x": 8.0}}
    by_layer = network({**rule, "factors": {"r": "seen"}})
    layers = {"given": Constant(shape=(1, 1, 1), value=0.7), "seen": Linear(shape=(1, 1, 1))}
    connections = {"see": Identity(pre="given", post="seen")}
    by_layer = by_layer.model_copy(
        update={
            "layers": {**by_layer.layers, **layers},
            "connections": {**by_layer.connections, **connections},
            "output": Output(connections={"c": ConnectionOutput(every=STEPS)}),
        }
    )
    by_number = network({**rule, "parameters": {"r": 0.7}})
    found, expected = (
        np.asarray(in_memory.run(net).recorded["connections/c/weights"])[-1] for net in (by_layer, by_number)
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_kernels_in_the_cache_are_told_apart_by_the_order_of_numbers() -> None:
    found = []
    for parameters in ({"a": 0.1, "b": 0.2}, {"b": 0.2, "a": 0.1}):
        net = network({"on_pre": "w += a", "parameters": parameters})
        found.append(np.asarray(in_memory.run(net).recorded["connections/c/weights"]))
    np.testing.assert_array_equal(*found)


def test_variables_start_with_numbers_or_a_value_of_each_synapse() -> None:
    rule = {
        **ELIGIBLE, "start": {"n": Uniform(low=1.0, high=2.0), "last": 3.0, "c": Uniform(per_slice=True)}
    }  # fmt: skip
    found = in_memory.run(network(rule)).recorded
    n, last, c = (np.asarray(found[f"connections/c/{name}"])[0] for name in ("n", "last", "c"))
    assert len(np.unique(n[0])) > 20
    np.testing.assert_array_equal(n[0], n[1])
    assert (last == 3).all()
    assert not np.array_equal(c[0], c[1])


def refused(rule: Mapping[str, Any]) -> str:
    with pytest.raises(TableError) as raised:
        learning(rule)
    return str(raised.value)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"on_pre": "x += 1;\n w -= a * y", "traces": {"x": 1.0}},
         ["on_pre: line 2, column 7: this name is not defined", "a"]),
        ({"on_post": "w += 1 1"}, ["on_post: line 1, column 6", "this is not an expression"]),
        ({"on_post": "delivered = w"},
         ["on_post: line 1, column 1", "there is no variable of this name",
          "an event of a post unit delivers nothing"]),
        ({"on_pre": "ge_post += w"}, ["ge_post", "what is added to `target` is `delivered`"]),
        ({"on_post": "w += v_post"}, ["v_post", "layers in `factors`"]),
        ({"on_post": "w += delivered"},
         ["on_post: line 1, column 6", "an event of a post unit delivers nothing"]),
        ({"on_pre": "W += 1"}, ["there is no variable of this name", "did you mean w?"]),
        ({"on_pre": "w += 1", "traces": {"x": 2.0}}, ["traces", "this trace never changes"]),
        ({"on_pre": "w += 1", "variables": ("w",)}, ["variables", "this name has a meaning of its own"]),
        ({"on_pre": "usage += 1", "variables": ("usage",)}, ["this name has a meaning of its own"]),
        ({"on_pre": "w += x", "variables": ("x",), "parameters": {"x": 1.0}}, ["this name is given twice"]),
        ({}, ["nothing changes"]),
        ({"on_pre": "w += 1", "start": {"x": 2.0}}, ["start", "there is no variable of this name"]),
        ({"on_pre": "w += 1", "bounds": (1.0, 0.0)}, ["bounds", "no weight is between these"]),
        ({"on_pre": "w += 1", "parameters": {f"p{n}": 1.0 for n in range(40)}},
         ["these are too many", "41 numbers"]),
    ],
)  # fmt: skip
def test_errors_of_texts_point_to_line_and_column(rule: dict[str, Any], said: list[str]) -> None:
    message = refused(rule)
    for text in said:
        assert text in message


def test_what_cannot_learn_at_spikes_is_refused_with_the_reason() -> None:
    def problem(net: Network, **keys: Any) -> str:
        with pytest.raises(ParamsError) as raised:
            build(net.model_copy(update=keys))
        return str(raised.value)

    net = network(PAIR)
    own = net.connections["c"]
    for mode in ("shared", "extra_shared"):
        one = own.model_copy(update={"mode": mode, "pre": "post"})
        assert "are between two units" in problem(net, connections={"c": one})
    layers = {**net.layers, "pre": Rectified(shape=PRE, threshold=0.1)}
    assert "connections.c.pre: synapses learn at spikes, and this layer does not spike" in problem(
        net, layers=layers, output=Output()
    )
    run = net.run.model_copy(update={"device": "gpu"})
    assert "run.device" in problem(net, run=run)
    third = learning({**PAIR, "factors": {"r": "reward"}, "on_pre": "x += r; w -= 0.03 * y"})
    joined = {"c": own.model_copy(update={"learn": third})}
    assert "connections.c.learn.factors.r" in problem(net, connections=joined)
    layers = {**net.layers, "reward": Constant(shape=(2, 1, 1), value=1.0)}
    assert "which unit of this layer" in problem(net, connections=joined, layers=layers)
    output = net.output.model_copy(update={"connections": {"c": ConnectionOutput(variables=("z",))}})
    assert "expected: weights, x, y, usage" in problem(net, output=output)


def test_time_constants_of_traces_differ_among_slices_but_do_not_change_in_a_run() -> None:
    # Traces decay at events, for all the time since their last change: at once, with one time constant.
    net, key = network(PAIR), "connections.c.learn.traces.x"
    build(net.model_copy(update={"slices": {key: tuple(5.0 + n for n in range(net.run.batch))}}))
    course = OverTime(at=(1, 50), values=(20.0, 5.0), by="step")
    with pytest.raises(ParamsError, match="one time constant from spike to spike"):
        build(net.model_copy(update={"over_time": {key: course}}))
    for value in (5.0, [5.0 + n for n in range(net.run.batch)]):
        with Simulator(net) as sim, pytest.raises(ArgumentError, match="one time constant"):
            sim["c"]["learn.traces.x"] = value


def test_bounds_of_weights_of_all_slices_are_those_of_all_slices() -> None:
    rule, key = Stdp(a_plus=0.1, a_minus=0.1, largest=1.0), "connections.c.learn.largest"
    for mode, wrong in (("non_shared", False), ("extra_non_shared", True)):
        net = network(PAIR)
        one = net.connections["c"].model_copy(update={"learn": rule, "mode": mode})
        values = {key: tuple(1.0 + n for n in range(net.run.batch))}
        net = net.model_copy(update={"connections": {"c": one}, "slices": values, "output": Output()})
        with pytest.raises(ParamsError, match="belong to all slices") if wrong else nullcontext():
            build(net)


def test_a_wrong_number_of_a_rule_is_answered_with_those_of_the_rule() -> None:
    net, key = network(PAIR), "connections.c.learn.parameters.a_plus"
    values = {key: tuple(1.0 + n for n in range(net.run.batch))}
    with pytest.raises(ParamsError, match=r"expected: a number of the dynamics: .*learn\.traces\.x"):
        build(net.model_copy(update={"slices": values}))


def test_the_name_of_a_type_in_place_of_a_rule_is_answered_with_its_table() -> None:
    with pytest.raises(TableError, match=r'write \{ type = "stdp" \}'):
        Sparse(pre="p", post="q", target="v", probability=1.0, learn="stdp")  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_traces_of_units_that_are_silent_for_most_of_a_very_long_run_stay_at_rest(precision: str) -> None:
    with Simulator(network(PAIR, run={"precision": precision})) as sim:
        sim.step(10)
        sim["c"]["x"], sim["c"]["changed_pre"] = 0.0, -(2**31) + 5  # more than 2^31 steps ago
        sim.step(20)
        assert np.isfinite(sim["c"]["weights"]).all()
