"""Synapses with delays, and those of each slice, on an emulated GPU against the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.connections import Sparse
from petabatch.connections.wirings import Profile
from petabatch.layers import Constant, Linear, Neurons
from petabatch.network.build import build
from petabatch.network.gpu_costs import gpu_costs
from petabatch.network.plan import schedule
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.schedule import Every
from petabatch.spec.sweep import Sweep
from petabatch.weight_mode import WeightMode
from petabatch.weights import Gaussian, Uniform
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_agree, assert_near, on_gpu, simulate, state_of, window

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
SHAPE = (4, 5, 3)


def network(mode: WeightMode = "non_shared", steps: int = 24, seed: int = 1, **keys: Any) -> Network:
    """Return three slices of units that excite each other, driven by one that all slices have in common."""
    units = Neurons(
        shape=SHAPE, equations="dv/dt = (1.5 - v) / 0.5", spike="v > 1", reset="v = 0",
        start={"v": Uniform(per_slice=True)},
    )  # fmt: skip
    keys = {"probability": 0.2, "init": Gaussian(std=0.2), **keys}
    run = {"batch": 3, "display": 8, "dt": 0.1, **keys.pop("run", {})}
    layers = {"n": units, "one": Constant(shape=SHAPE, value=0.02, batch=1)}
    return Network(
        run=Run(steps=steps, seed=seed, **run),
        layers=layers,
        connections={
            "nn": Sparse(pre="n", post="n", target="v", mode=mode, **keys),
            "drive": Sparse(pre="one", post="n", target="v", mode=mode, **keys),
        },
        output=Output(layers={"n": LayerOutput(every=4, variables=("A", "v"))}),
    )


DELAYS = {"delays": Uniform(low=0.0, high=0.5)}
KEYS = {
    "delays": DELAYS,
    "per slice": {"per_slice": True},
    "both": {**DELAYS, "per_slice": True, "probability": 0.1},
    "speed": {"speed": 8.0, "profile": Profile(width=2.0)},
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_what_synapses_carry_is_that_of_the_cpu(keys: dict[str, Any]) -> None:
    engine = assert_agree(network(**keys), EmulatedGpu())
    spikes = simulate(network(**keys))[1]["layers/n/A"]
    assert spikes.any()
    assert not np.array_equal(spikes[:, 0], spikes[:, 1])
    assert engine.backend.device.captured > 0


@pytest.mark.parametrize("keys", [{}, DELAYS, {**DELAYS, "per_slice": True}], ids=["", "delays", "per slice"])
def test_no_synapses_carry_nothing(keys: dict[str, Any]) -> None:
    assert_agree(network(probability=0.0, **keys), EmulatedGpu())


@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared", "extra_non_shared"])
def test_each_mode_agrees(mode: WeightMode) -> None:
    assert_agree(network(mode, **DELAYS, probability=0.2 if "non" in mode else 1.0), EmulatedGpu())


def test_a_layer_that_skips_steps_receives_what_arrives_in_its_update_steps() -> None:
    base = network(**DELAYS)
    seen = Linear(shape=SHAPE, every=Every(5, "steps"), offset=2)
    late = Sparse(pre="n", post="seen", probability=0.2, mode="non_shared", init=Gaussian(std=0.2), **DELAYS)
    update = {"layers": {**base.layers, "seen": seen}, "connections": {**base.connections, "late": late}}
    engine = assert_agree(base.model_copy(update=update), EmulatedGpu())
    assert engine.state.arrays["layers/seen/A"].any()


def test_seeds_of_a_sweep_have_synapses_of_their_own_where_windows_take_turns() -> None:
    wanted = network(**DELAYS).model_copy(update={"sweep": Sweep(run={"seed": [1, 4]})})
    _, expected = state_of(wanted)
    device = window(4, on_gpu(wanted))
    engine, found = state_of(on_gpu(wanted), device)
    assert len(engine.backend.windows) == 2
    kept = {key: array for key, array in expected.items() if not key.startswith("lazy/")}
    assert_near(found, kept, 1e-4)
    assert not np.array_equal(found["connections/nn/targets"][0], found["connections/nn/targets"][3])


def test_two_runs_have_the_same_bits_and_a_slice_those_it_has_alone() -> None:
    keys = {**DELAYS, "per_slice": True}
    first, second = (simulate(on_gpu(network(**keys)), EmulatedGpu())[1] for _ in range(2))
    alone = simulate(on_gpu(network(**keys, run={"batch": 1})), EmulatedGpu())[1]
    for path, values in first.items():
        np.testing.assert_array_equal(second[path], values)
        np.testing.assert_array_equal(alone[path], values[:, :1])


def test_check_says_that_silent_units_cost_as_much() -> None:
    said = list(gpu_costs(schedule(build(on_gpu(network(**DELAYS))))))
    assert any(
        "connections.nn: on a GPU, all " in one and "for each of 6 steps to come" in one for one in said
    )
    assert not list(gpu_costs(schedule(build(network(**DELAYS)))))
