"""Delays of synapses, and synapses of each slice: by hand, compiled, in batches, on ranks, resumed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity, Sparse
from petabatch.connections.wirings import Profile
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.layers import Constant, Linear, Neurons
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.compiled import CompiledRule, NotSuitable
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.schedule import DISPLAY, Every
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian, Uniform
from support.pools import pooled
from support.rank_threads import on_threads

SHAPE = (4, 5, 3)
OUTPUT = Output(layers={"n": LayerOutput(every=1, variables=("A", "v"))})
DELAYS = Uniform(low=0.0, high=1.1)


def network(mode: Any = "extra_non_shared", steps: int = 40, seed: int = 1, **keys: Any) -> Network:
    """Return units that excite each other, three slices of them."""
    units = Neurons(
        shape=SHAPE, equations="dv/dt = (1.5 - v) / 0.5", spike="v > 1", reset="v = 0",
        start={"v": Uniform(per_slice=True)},
    )  # fmt: skip
    keys = {"probability": 0.2, "delays": DELAYS, "init": Gaussian(std=0.2), **keys}
    run = {"batch": 3, "display": 8, "dt": 0.1, **keys.pop("run", {})}
    joined = Sparse(pre="n", post="n", target="v", mode=mode, **keys)
    return Network(
        run=Run(steps=steps, seed=seed, **run), layers={"n": units}, connections={"nn": joined}, output=OUTPUT
    )


def v(net: Network, threads: int = 1) -> np.ndarray:
    return np.asarray(in_memory.run(net, threads=threads).recorded["layers/n/v"])


@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared", "extra_non_shared"])
def test_what_arrives_is_what_each_synapse_delayed(mode: Any) -> None:
    net = network(mode, probability=0.2 if "non" in mode else 1.0, delay_steps=1)
    found = in_memory.run(net, at=[0]).recorded
    spikes = np.asarray(found["layers/n/A"]).reshape(40, 3, -1)
    assert spikes[:20].sum() > 100
    graph = build(net)
    synapses, ends = graph.synapses["nn"], graph.wirings["nn"].synapses
    state = in_memory.run(net, at=[0]).states
    weights = state["connections/nn/weights"][0]
    pre = np.repeat(np.arange(ends.pre), np.diff(synapses.starts))
    arrived = np.zeros((60, *spikes.shape[1:]))
    for step, lane, unit in zip(*np.nonzero(spikes), strict=True):
        place, own = divmod(unit, ends.pre)
        mine = pre == own
        when = step + 2 + synapses.first.delays[mine]
        np.add.at(
            arrived[:, lane], (when, place * ends.post_units + synapses.targets[mine]),
            weights[lane % len(weights), mine],
        )  # fmt: skip
    expected = state["layers/n/v"][0].reshape(3, -1).astype(float)
    traces = np.asarray(found["layers/n/v"]).reshape(40, 3, -1)
    decay = np.exp(-0.1 / 0.5)
    for step in range(40):
        expected = expected + arrived[step]
        expected[spikes[step - 1] > 0 if step else np.zeros(expected.shape, bool)] = 0
        expected = decay * expected + (1 - decay) * 1.5
        np.testing.assert_allclose(traces[step], expected, atol=2e-5)
        expected = traces[step].astype(float)


@pytest.mark.parametrize("keys", [{}, {"per_slice": True}, {"speed": 2.0, "profile": Profile(width=2.0)}])
def test_arrays_compiled_steps_threads_and_batch_agree(keys: dict[str, Any]) -> None:
    mode = "non_shared" if "per_slice" in keys else "extra_non_shared"
    whole = v(network(mode, **keys))
    np.testing.assert_array_equal(v(network(mode, **keys), threads=3), whole)
    np.testing.assert_array_equal(v(network(mode, **keys, run={"batch": 1})), whole[:, :1])
    np.testing.assert_allclose(v(network(mode, **keys, run={"kernel": "array"})), whole, atol=1e-5)


@pytest.mark.parametrize("per_slice", [False, True])
def test_slices_of_seeds_have_the_synapses_of_their_own_runs(per_slice: bool) -> None:
    net = network("non_shared", per_slice=per_slice)
    swept = v(net.model_copy(update={"sweep": Sweep(run={"seed": [1, 4]})}))
    for point, seed in enumerate((1, 4)):
        alone = v(network("non_shared", per_slice=per_slice, seed=seed))
        np.testing.assert_array_equal(swept[:, 3 * point : 3 * point + 3], alone)
    assert not np.array_equal(swept[:, :3], swept[:, 3:])


@pytest.mark.parametrize("ranks", [2, 3])
def test_bits_do_not_depend_on_ranks(ranks: int) -> None:
    def final(comm: Comm) -> dict[str, np.ndarray]:
        engine = Engine(schedule(build(network("non_shared", per_slice=True))), comm, 1)
        engine.start()
        for _ in drive(engine):
            engine.recorder.take(engine.step)
        engine.collect()
        return {key: array.copy() for key, array in engine.state.arrays.items()}

    whole, parts = final(Serial()), on_threads(ranks, final)
    for key, one in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[key] for part in parts]), one, err_msg=key)


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_a_run_goes_on_with_what_is_under_way(kernel: str) -> None:
    net, half = (network(steps=steps, run={"kernel": kernel}) for steps in (40, 21))
    whole, first = in_memory.run(net), in_memory.run(half)
    assert np.count_nonzero(first.end.arrays["connections/nn/pending"]) > 50
    second = in_memory.run(net, start=first.end)
    for key, one in whole.recorded.items():
        both = np.concatenate([np.asarray(first.recorded[key]), np.asarray(second.recorded[key])])
        np.testing.assert_array_equal(both, one, err_msg=key)


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_nothing_is_under_way_to_a_layer_that_takes_no_input(kernel: str) -> None:
    net = network(run={"kernel": kernel})
    given = Constant(shape=SHAPE, value=1.0, every=DISPLAY, offset=-1)
    onto = Sparse(pre="n", post="given", probability=0.3, delays=DELAYS, init=Gaussian(std=0.2))
    net = net.model_copy(
        update={
            "layers": {**net.layers, "given": given},
            "connections": {**net.connections, "onto": onto},
        }
    )
    end = in_memory.run(net).end.arrays
    assert np.count_nonzero(end["connections/nn/pending"]) > 50
    assert not end["connections/onto/pending"].any()
    np.testing.assert_array_equal(end["layers/given/A"], 1)


def test_what_is_under_way_arrives_whether_the_layer_is_recorded_in_each_step_or_seldom() -> None:
    net = network()
    seen = Sparse(pre="n", post="seen", probability=0.3, delays=DELAYS, init=Gaussian(std=0.2))
    net = net.model_copy(
        update={
            "layers": {**net.layers, "seen": Linear(shape=SHAPE)},
            "connections": {**net.connections, "seen": seen},
        }
    )
    each, seldom = (
        in_memory.run(net.model_copy(update={"output": Output(layers={"seen": LayerOutput(every=every)})}))
        for every in (1, 20)
    )
    found = seldom.recorded["layers/seen/A"]
    assert np.abs(found).max() > 0
    np.testing.assert_array_equal(found[-1], each.recorded["layers/seen/A"][-1])


class Interpreted(Linear):
    """A layer that programs leave to the interpreter."""

    type: Literal["test_delays_interpreted"] = "test_delays_interpreted"  # type: ignore[assignment]

    def compiled_rule(self) -> CompiledRule:
        """Raise NotSuitable."""
        raise NotSuitable("it is a plug-in")


class Wire(Identity):
    """A connection that programs leave to the interpreter."""

    type: Literal["test_delays_wire"] = "test_delays_wire"  # type: ignore[assignment]

    @property
    def operation(self) -> Any:
        return "other"

    def deliver(self, kernels: Any, wiring: Any, activity: Any, border: Any, patches: Any) -> Any:
        return activity


@pytest.mark.parametrize("mode", ["non_shared", "extra_non_shared"])
@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize(
    ("layer", "beside"), [(Linear, Identity), (Interpreted, Identity), (Interpreted, Wire)]
)
def test_a_layer_that_skips_steps_receives_what_arrives_in_its_update_steps(
    mode: Any, kernel: str, layer: type[Linear], beside: type[Identity]
) -> None:
    def seen(every: int) -> np.ndarray:
        net = network(mode, run={"kernel": kernel})
        own = layer(shape=SHAPE, every=Every(every, "steps"), offset=2)
        late = Sparse(pre="n", post="seen", probability=0.3, mode=mode, delays=DELAYS, init=Gaussian(std=0.2))
        connections = {**net.connections, "late": late, "beside": beside(pre="n", post="seen", delay_steps=1)}
        output = Output(layers={"seen": LayerOutput(every=1)})
        update = {"layers": {**net.layers, "seen": own}, "connections": connections, "output": output}
        return np.asarray(in_memory.run(net.model_copy(update=update)).recorded["layers/seen/A"])

    each, some = seen(1), seen(5)
    assert np.abs(each).max() > 0.2
    np.testing.assert_array_equal(some[2::5], each[2::5])
    np.testing.assert_array_equal(some[3::5], some[2::5][: len(some[3::5])])


@pytest.mark.parametrize(
    "keys", [{}, {"per_slice": True}, {"delays": None, "init": Gaussian(per_slice=True)}]
)
def test_in_a_pool_each_slice_has_its_own_synapses(keys: dict[str, Any]) -> None:
    net = network("non_shared", steps=20, **keys)
    expected = in_memory.run(net).recorded
    found, failures = pooled(network("non_shared", steps=20, run={"pool": True}, **keys), 1, 1, seed=1)
    assert failures == [None] * 3
    assert np.any(np.diff(np.asarray(expected["layers/n/v"]), axis=0) > 0)
    for path, values in found.items():
        assert values.tobytes() == np.asarray(expected[path]).tobytes(), path
