"""Networks whose loop is compiled against the same networks layer by layer, and what is seen of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.engine.engine import Engine
from petabatch.engine.steppers import Stepper
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.layers import (
    BaseTimeScale,
)
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import L0, L1, L2, Energy
from petabatch.probes.cost import Cost
from petabatch.probes.terms import Sum
from petabatch.spec.network import Network, Until
from petabatch.spec.parts import DISPLAY, Probe
from petabatch.spec.schedule import Every
from support.networks import assert_same, collect, simulate
from support.optimum import problem
from support.sparse_coding import CODES, SCALES, network


def arrays_of(one: Network, threads: int = 1) -> dict[str, np.ndarray]:
    return simulate(one, threads)[0].state.saved()


def stepper(one: Network) -> Stepper:
    return Engine(schedule(build(one)), Serial(), 1).lanes[0].stepper


@pytest.mark.parametrize("features", [12, 32])
@pytest.mark.parametrize("mode", ["extra_shared", "non_shared", "extra_non_shared"])
@pytest.mark.parametrize("code", CODES)
def test_a_compiled_layer_agrees_with_its_own_update(code: str, features: int, mode: str) -> None:
    same: dict[str, Any] = {"features": features, "mode": mode, "learn": False}
    assert isinstance(stepper(network(code, **same)), DenseStepper)
    found, expected = (simulate(network(code, **same, kernel=kernel))[1] for kernel in ("auto", "array"))
    assert expected["layers/V1/A"].any()
    for path, values in expected.items():
        np.testing.assert_allclose(found[path], values, rtol=1e-4, atol=2e-5, err_msg=path)


@pytest.mark.parametrize("code", CODES)
def test_energy_of_every_step_changes_no_bit_and_stops_no_loop(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, run = [], DenseStepper.run

    def counted(self: DenseStepper, first: int, last: int, fresh: bool) -> np.ndarray:
        calls.append(last - first)
        return run(self, first, last, fresh)

    monkeypatch.setattr(DenseStepper, "run", counted)
    seen = arrays_of(network(code, Every(1), slices=1))
    assert [steps for steps in calls if steps] == [20, 20, 20]
    assert_same(seen, arrays_of(network(code, slices=1)))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("code", ["lca", "heavy_ball", "ista"])
def test_compiled_time_scales_agree_with_the_controllers(code: str, scale: str) -> None:
    keys = {"time_scale": SCALES[scale]}
    found, expected = (
        arrays_of(network(code, keys=keys, learn=False, kernel=kernel)) for kernel in ("auto", "array")
    )
    reached = expected["layers/V1/time_scale"]
    assert (reached > 0.6).all()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-4, atol=2e-5, err_msg=key)


@pytest.mark.parametrize("scale", SCALES)
def test_a_time_scale_has_the_same_bits_however_it_is_watched(scale: str) -> None:
    keys = {"time_scale": SCALES[scale]}
    plain = arrays_of(network(keys=keys))
    assert_same(arrays_of(network(keys=keys, every=Every(1))), plain)
    assert_same(arrays_of(network(keys=keys), threads=3), plain)
    # A probe that needs the layers themselves stops the loop in odd places.
    stopping: dict[str, Probe] = {"silent": L0(layer="V1", above=0.1, every=Every(7))}
    assert_same(arrays_of(network(keys=keys, probes=stopping)), plain)


def test_a_run_resumed_in_the_middle_of_a_display_keeps_its_time_scale() -> None:
    one = network(keys={"time_scale": SCALES["knee"]})
    plan = schedule(build(one))
    whole = Engine(plan, Serial(), 1)
    whole.start()
    collect(whole)
    first = Engine(schedule(build(one)), Serial(), 1)
    object.__setattr__(first.plan, "stops", (27,))
    first.start()
    for step in first.run():
        if step == 27:
            break
    second = Engine(plan, Serial(), 1)
    second.resume(27, {key: array.copy() for key, array in first.state.saved().items()})
    collect(second)
    assert_same(second.state.saved(), whole.state.saved())


def test_a_time_scale_that_follows_what_the_loop_does_not_sum_still_runs() -> None:
    energy = Energy(error="error", code="V1", coefficient=0.4, cost="firm", corner=0.6, every=DISPLAY)
    one = network(keys={"time_scale": BaseTimeScale(energy="firm")}, probes={"firm": energy}, learn=False)
    loop = stepper(one)
    assert isinstance(loop, DenseStepper)
    assert loop.followed is None
    expected = arrays_of(one.model_copy(update={"run": one.run.model_copy(update={"kernel": "array"})}))
    for key, values in arrays_of(one).items():
        np.testing.assert_allclose(values, expected[key], rtol=1e-4, atol=2e-5, err_msg=key)


def test_what_the_loop_measures_is_what_the_probes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = {
        "fit": Cost(layer="error", coefficient=0.5),
        "count": Cost(layer="V1", norm="l0", coefficient=0.08),
    }
    every: dict[str, Any] = {"every": Every(3)}
    probes: dict[str, Probe] = {
        "active": L0(layer="V1", **every),
        "size": L1(layer="V1", **every),
        "squares": L2(layer="error", **every),
        "hard": Energy(error="error", code="V1", coefficient=0.1, cost="l0", every=Every(1)),
        "sum": Sum(terms=terms, **every),
    }
    one = network("heavy_ball", Every(2), probes=probes, slices=3)
    found = simulate(one)[1]
    lanes = Engine(schedule(build(one)), Serial(), 1).lanes
    assert len(lanes[0].stepper.probes.recordings) == 13
    monkeypatch.setattr(StepProbes, "of", lambda *_: StepProbes.none())
    engine = Engine(schedule(build(one)), Serial(), 1)
    assert not engine.lanes[0].stepper.probes.recordings
    engine.start()
    for path, values in collect(engine).items():
        np.testing.assert_allclose(found[path], values, rtol=1e-12, err_msg=path)


@pytest.mark.parametrize("method", ["lca", "fista"])
def test_energies_of_slices_that_rest_are_recorded(method: str) -> None:
    plain = problem(slices=2, items=2).network(method, 0.1, 90, displays=2, every=90, precision="float32")
    energy = plain.probes["energy"].model_copy(update={"every": Every(1)})
    one = plain.model_copy(
        update={
            "run": plain.run.model_copy(update={"until": Until(gap=0.05, every=7)}),
            "probes": {**plain.probes, "energy": energy},
        }
    )
    found = simulate(one)[1]
    expected = simulate(one.model_copy(update={"run": one.run.model_copy(update={"kernel": "array"})}))[1]
    assert (expected["probes/until/steps"] < 90).any()
    for path, values in expected.items():
        np.testing.assert_allclose(found[path], values, rtol=1e-4, atol=2e-5, err_msg=path)
