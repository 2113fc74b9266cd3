"""Synapses that several slices share: summed up side by side, with the bits of each slice alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Sparse
from petabatch.engine.engine import Engine
from petabatch.layers import Neurons
from petabatch.network.build import build
from petabatch.network.plan import Plan, schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Serial
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import Layer
from petabatch.weights import Gaussian, Uniform

SLICES, STEPS = 21, 60
"""More slices than lie side by side, and not a multiple of them."""
RATES = Neurons(
    shape=(2, 3, 5),
    equations="dx/dt = (-x + tanh(1.5 * inside) + I) / 4\ny = max(x, 0.2) - 0.2",
    parameters={"I": 0.3},
    currents=("inside",),
    activity="y",
    start={"x": Uniform(low=-1.0, high=1.0)},
    method="euler",
)
"""Units of which some are active, in other steps and slices other ones."""
SPIKES = Neurons(
    shape=(2, 3, 5), equations="dv/dt = (2.0 - v) / 9", spike="v > 1", reset="v = 0", currents=("inside",)
)


def joined(layer: Layer = RATES, **keys: object) -> Network:
    """Return units that are joined to themselves, with a strength of its own in each slice."""
    weights = {"probability": 0.6, "init": Gaussian(std=0.5)} | keys
    tracts = Sparse.model_validate({"pre": "units", "post": "units", "target": "inside"} | weights)
    strengths = tuple(np.linspace(0.2, 2.0, SLICES).tolist())
    return Network(
        run=Run(batch=SLICES, steps=STEPS, display=STEPS),
        layers={"units": layer},
        connections={"tracts": tracts},
        slices={"connections.tracts.strength": strengths},
    )


def final(plan: Plan, ends: Sequence[int] = (STEPS,), threads: int = 1) -> dict[str, np.ndarray]:
    """Return the state after calls up to these steps."""
    engine = Engine(plan, Serial(), threads)
    engine.start()
    with engine.running():
        for end in ends:
            engine.advance(end)
    engine.collect()
    return {key: array.copy() for key, array in engine.state.arrays.items()}


SYNAPSES = {
    "delays": {"delays": Uniform(low=0.0, high=9.0)},
    "no delays": {},
    "delays at each position": {"delays": Uniform(low=0.0, high=3.0), "mode": "extra_shared"},
    "a delay before the delays": {"delays": Uniform(low=2.0, high=3.0), "delay_steps": 4},
}


@pytest.mark.parametrize("keys", SYNAPSES.values(), ids=SYNAPSES)
def test_slices_side_by_side_have_the_bits_of_each_alone(keys: dict[str, object]) -> None:
    plan = schedule(build(joined(**keys)))
    assert plan.method.together >= SLICES
    together = final(plan)
    assert 0 < np.count_nonzero(together["layers/units/A"]) < together["layers/units/A"].size
    for number in (0, 7, 15, 16, 20):
        network = sliced(joined(**keys), number)
        one = network.model_copy(update={"run": network.run.model_copy(update={"batch": 1})})
        for key, array in final(schedule(build(one))).items():
            mine = together[key][number] if len(together[key]) == SLICES else together[key][0]
            assert mine.tobytes() == array[0].tobytes(), (number, key)


@pytest.mark.parametrize(
    "ends", [(5, 9, 30, 33, STEPS), range(1, STEPS + 1)], ids=["long and short", "single"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_calls_of_few_steps_change_no_bit(ends: Sequence[int], threads: int) -> None:
    plan = schedule(build(joined(**SYNAPSES["delays"])))
    whole, parts = final(plan), final(plan, ends, threads)
    for key, array in whole.items():
        assert array.tobytes() == parts[key].tobytes(), key


@pytest.mark.parametrize(("precision", "apart"), [("float32", 1e-4), ("float64", 1e-12)])
def test_layers_one_by_one_agree(precision: str, apart: float) -> None:
    given = joined(**SYNAPSES["delays"])

    def run(**keys: str) -> dict[str, np.ndarray]:
        return final(schedule(build(given.model_copy(update={"run": given.run.model_copy(update=keys)}))))

    reference, found = run(kernel="array", precision="float64"), run(precision=precision)
    np.testing.assert_allclose(found["layers/units/x"], reference["layers/units/x"], rtol=0, atol=apart)


def test_spikes_and_synapses_of_each_slice_are_summed_up_slice_by_slice() -> None:
    assert schedule(build(joined(SPIKES))).method.together == 1
    assert schedule(build(joined(mode="non_shared"))).method.together == 1


def test_spikes_beside_them_are_recorded_from_their_lists() -> None:
    network, out = joined(), Output(layers={"cells": LayerOutput(variables=("A",))})
    drive = Sparse(pre="units", post="cells", target="v", probability=0.5, init=Uniform(low=0.0, high=0.1))
    layers, connections = network.layers | {"cells": SPIKES}, network.connections | {"drive": drive}
    given = network.model_copy(update={"layers": layers, "connections": connections, "output": out})
    assert schedule(build(given)).method.together >= SLICES
    together = in_memory.run(given, threads=1).recorded["layers/cells/A"]
    assert together.any()
    for number in (0, 20):
        network = sliced(given, number)
        one = network.model_copy(update={"run": network.run.model_copy(update={"batch": 1})})
        alone = in_memory.run(one, threads=1).recorded["layers/cells/A"]
        assert together[:, number].tobytes() == alone[:, 0].tobytes()
