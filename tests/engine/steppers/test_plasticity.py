"""Synapses that learn: the same bits in batches, on threads and ranks, resumed, in sweeps and pools."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import petabatch
from petabatch import Simulator, in_memory
from petabatch.connections import Conv, Sparse
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.layers import LeakyIntegrator, Neurons, SpikeTimes
from petabatch.learning import Stdp, SynapticEquations
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.compiled import CompiledRule, NotSuitable
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian, Uniform
from support.pools import pooled
from support.rank_threads import on_threads

SHAPE = (4, 5, 3)
STEPS = 40
RULE = SynapticEquations(
    on_pre="x += 1; c += 0.1; w -= 0.05 * y; delivered = w * (1 - 0.2 * c)",
    on_post="y += 1; w += 0.04 * x",
    traces={"x": 1.0, "y": 2.0, "c": 3.0},
    bounds=(-0.5, 0.5),
    start={"c": Uniform(low=0.0, high=0.3, per_slice=True)},
)
"""Traces of units, but for `c`; with delays that of the pre unit too is one of each synapse."""
DELAYS = Uniform(low=0.0, high=1.1)


def network(steps: int = STEPS, seed: int = 1, **keys: Any) -> Network:
    """Return units that excite each other by synapses that learn, three slices of them."""
    units = Neurons(
        shape=SHAPE, equations="dv/dt = (1.5 - v) / 0.5", spike="v > 1", reset="v = 0",
        start={"v": Uniform(per_slice=True)},
    )  # fmt: skip
    run = {"batch": 3, "display": 8, "dt": 0.1, **keys.pop("run", {})}
    keys = {"probability": 0.2, "delays": DELAYS, "init": Gaussian(std=0.2), "learn": RULE, **keys}
    joined = Sparse(pre="n", post="n", target="v", **{"mode": "non_shared", **keys})
    return Network(
        run=Run(steps=steps, seed=seed, **run),
        layers={"n": units},
        connections={"nn": joined},
        output=Output(
            layers={"n": LayerOutput(every=1, variables=("A", "v"))},
            connections={"nn": ConnectionOutput(every=5, variables=("weights", *joined.learned))},
        ),
    )


def recorded(net: Network, threads: int = 1) -> dict[str, np.ndarray]:
    found = in_memory.run(net, threads=threads).recorded
    return {key: np.asarray(values) for key, values in found.items()}


def assert_same(mine: dict[str, Any], others: dict[str, Any], some: Any = ...) -> None:
    assert mine.keys() == others.keys()
    for key, values in mine.items():
        whole = np.asarray(others[key])
        batched = values.ndim > 1 and whole.shape != values.shape
        np.testing.assert_array_equal(values, whole[some] if batched else whole, err_msg=key)


KINDS: list[dict[str, Any]] = [
    {}, {"delays": None}, {"per_slice": True}, {"delays": None, "delay_steps": 3},
    {"mode": "extra_non_shared"},
]  # fmt: skip


@pytest.mark.parametrize("keys", KINDS)
def test_arrays_compiled_steps_threads_and_batch_agree(keys: dict[str, Any]) -> None:
    whole = recorded(network(**keys))
    weights = whole["connections/nn/weights"]
    assert np.abs(weights[-1] - weights[0]).mean() > 0.02
    assert_same(recorded(network(**keys), threads=3), whole)
    if "mode" not in keys:  # else weights are learned by all slices together
        assert_same(recorded(network(**keys, run={"batch": 1})), whole, np.s_[:, :1])
    arrays = recorded(network(**keys, run={"kernel": "array"}))
    for key, values in arrays.items():
        np.testing.assert_allclose(values, whole[key], atol=2e-5, err_msg=key)


def test_what_is_recorded_changes_no_weight() -> None:
    whole = recorded(network())
    seldom = network().model_copy(update={"output": Output(connections={"nn": ConnectionOutput(every=20)})})
    found = recorded(seldom)["connections/nn/weights"]
    np.testing.assert_array_equal(found[-1], whole["connections/nn/weights"][-1])


class Interpreted(LeakyIntegrator):
    """A layer that programs leave to the interpreter."""

    type: Literal["test_plasticity_interpreted"] = "test_plasticity_interpreted"  # type: ignore[assignment]

    def compiled_rule(self) -> CompiledRule:
        """Raise NotSuitable."""
        raise NotSuitable("it is a plug-in")


@pytest.mark.parametrize("kind", [LeakyIntegrator, Interpreted])
@pytest.mark.parametrize("keys", KINDS)
def test_several_slices_in_one_call_and_interpreted_layers_change_no_bit(
    kind: type[LeakyIntegrator], keys: dict[str, Any]
) -> None:
    net = network(**keys)
    dense = Conv(pre="n", post="beside", patch=(1, 1), init=Gaussian(std=0.1))
    wide = net.model_copy(
        update={
            "layers": {**net.layers, "beside": kind(shape=(1, 1, 8), tau=2.0)},
            "connections": {**net.connections, "dense": dense},
            "output": net.output.model_copy(
                update={"layers": {**net.output.layers, "beside": LayerOutput(every=1)}}
            ),
        }
    )
    assert schedule(build(wide)).method.together > 1
    found, alone = recorded(wide), recorded(net)
    assert np.abs(found["layers/beside/A"]).max() > 0
    for key, values in alone.items():
        np.testing.assert_array_equal(found[key], values, err_msg=key)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("keys", [{"per_slice": True}, {"mode": "extra_non_shared"}])
def test_bits_do_not_depend_on_ranks(ranks: int, keys: dict[str, Any]) -> None:
    def final(comm: Comm) -> dict[str, np.ndarray]:
        engine = Engine(schedule(build(network(**keys))), comm, 1)
        engine.start()
        for _ in drive(engine):
            engine.recorder.take(engine.step)
        engine.collect()
        return {key: array.copy() for key, array in engine.state.arrays.items()}

    whole, parts = final(Serial()), on_threads(ranks, final)
    for key, one in whole.items():
        of_slices = len(one) == 3
        joined = np.concatenate([part[key] for part in parts]) if of_slices else parts[-1][key]
        np.testing.assert_array_equal(joined, one, err_msg=key)


@pytest.mark.parametrize("keys", KINDS)
@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_a_run_goes_on_with_spikes_on_their_way(kernel: str, keys: dict[str, Any]) -> None:
    net, half = (network(steps=steps, run={"kernel": kernel}, **keys) for steps in (STEPS, 21))
    whole, first = in_memory.run(net), in_memory.run(half)
    assert np.count_nonzero(first.end.arrays["connections/nn/pending"]) > 10
    second = in_memory.run(net, start=first.end)
    for key in ("layers/n/A", "layers/n/v"):
        both = np.concatenate([np.asarray(one.recorded[key]) for one in (first, second)])
        np.testing.assert_array_equal(both, whole.recorded[key], err_msg=key)
    for key, one in whole.end.arrays.items():
        np.testing.assert_array_equal(second.end.arrays[key], one, err_msg=key)


@pytest.mark.parametrize("per_slice", [False, True])
def test_slices_of_seeds_have_the_synapses_of_their_own_runs(per_slice: bool) -> None:
    net = network(per_slice=per_slice)
    swept = recorded(net.model_copy(update={"sweep": Sweep(run={"seed": [1, 4]})}))["layers/n/v"]
    for point, seed in enumerate((1, 4)):
        alone = recorded(network(per_slice=per_slice, seed=seed))["layers/n/v"]
        np.testing.assert_array_equal(swept[:, 3 * point : 3 * point + 3], alone)


def test_numbers_of_a_rule_can_be_swept() -> None:
    rule = SynapticEquations(
        on_pre="x += 1; w -= a * y", on_post="y += 1; w += a * x", traces={"x": 1.0, "y": 2.0},
        parameters={"a": 0.03},
    )  # fmt: skip
    net = network(learn=rule)
    values = [0.01, 0.03]
    sweep = Sweep(connections={"nn": {"learn": {"parameters": {"a": values}, "traces": {"x": [1.0, 4.0]}}}})
    found = recorded(net.model_copy(update={"sweep": sweep}))["connections/nn/weights"]
    for point, (a, tau) in enumerate([(a, tau) for a in values for tau in (1.0, 4.0)]):
        one = rule.model_copy(update={"parameters": {"a": a}, "traces": {"x": tau, "y": 2.0}})
        alone = recorded(network(learn=one))["connections/nn/weights"]
        np.testing.assert_array_equal(found[:, 3 * point : 3 * point + 3], alone)
    assert not np.array_equal(found[:, :3], found[:, 3:6])


@pytest.mark.parametrize("keys", KINDS[:-1])
def test_in_a_pool_each_slice_learns_alone(keys: dict[str, Any]) -> None:
    whole = recorded(network(steps=20, **keys))
    found, failures = pooled(network(steps=20, run={"pool": True}, **keys), 1, 1, seed=1)
    assert failures == [None] * 3
    for path, values in found.items():
        assert values.tobytes() == whole[path].tobytes(), path


def test_a_simulator_reads_and_assigns_weights_and_traces() -> None:
    net = network()
    whole = in_memory.run(net).end.arrays
    with Simulator(net) as sim:
        sim.step(13)
        saved = sim.save()
        sim.step(STEPS - 13)
        np.testing.assert_array_equal(sim["nn"]["weights"], whole["connections/nn/weights"])
        np.testing.assert_array_equal(sim["nn"]["y"], whole["connections/nn/y"])
        sim.load(saved)
        sim["nn"]["weights"] *= 1.0
        sim.step(STEPS - 13)
        np.testing.assert_array_equal(sim["nn"]["weights"], whole["connections/nn/weights"])
        sim["nn"]["weights"] = 0.25
        sim["nn"]["y"] = 0.0
        assert (sim["nn"]["weights"] == 0.25).all()


def test_assigned_targets_are_those_of_post_spikes() -> None:
    rule = SynapticEquations(on_post="w += 1")
    edges = ([0, 0, 1], [0, 1, 1], [0.0, 0.0, 0.0])
    spikes = SpikeTimes(shape=(1, 1, 2), spikes=[[0.5, 1]])
    net = Network(
        run=Run(steps=10, dt=0.1),
        layers={"pre": SpikeTimes(shape=(1, 1, 2), spikes=[]), "post": spikes},
        connections={
            "c": Sparse(pre="pre", post="post", channel="none", mode="non_shared", matrix=edges, learn=rule)
        },
    )
    with Simulator(net) as sim:
        sim["c"]["targets"] = [[1, 0, 0]]
        sim.step(10)
        np.testing.assert_array_equal(sim["c"]["weights"], [[1, 0, 0]])


def test_a_run_is_resumed_from_its_files(tmp_path: Path) -> None:
    net = network()
    whole = petabatch.run(net, tmp_path / "whole")
    half = petabatch.run(
        net.model_copy(update={"run": net.run.model_copy(update={"steps": 24})}), tmp_path / "half"
    )
    assert half is not None
    on = net.model_copy(update={"run": net.run.model_copy(update={"start_from": str(tmp_path / "half")})})
    rest = petabatch.run(on, tmp_path / "rest")
    with whole, rest:
        np.testing.assert_array_equal(
            np.asarray(rest["connections/nn/weights"])[-1], np.asarray(whole["connections/nn/weights"])[-1]
        )


def test_pairs_are_the_rule_of_pairs() -> None:
    pairs = Stdp(a_plus=0.04, a_minus=0.05, tau_plus=1.0, tau_minus=2.0, largest=0.5)
    same = SynapticEquations(
        on_pre="x += 1; w -= 0.05 * y", on_post="y += 1; w += 0.04 * x", traces={"x": 1.0, "y": 2.0},
        bounds=(0.0, 0.5),
    )  # fmt: skip
    found, expected = (recorded(network(learn=rule, init=Uniform(low=0, high=0.5))) for rule in (pairs, same))
    for key in ("connections/nn/weights", "layers/n/v"):
        np.testing.assert_allclose(found[key], expected[key], atol=1e-6)


def test_weights_that_grow_without_bounds_end_the_run() -> None:
    rule = SynapticEquations(on_pre="w *= 1e9")
    unheard = Sparse(
        pre="n", post="n", channel="none", mode="non_shared", init=Gaussian(), probability=0.2, learn=rule
    )
    net = network()
    net = net.model_copy(update={"connections": {**net.connections, "unheard": unheard}})
    with pytest.raises(petabatch.errors.NonFiniteError, match="weights of connection unheard") as raised:
        in_memory.run(net)
    assert "connections.unheard.learn: `bounds`" in str(raised.value)
