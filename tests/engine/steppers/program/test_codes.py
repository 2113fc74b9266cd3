"""Sparse-coding networks with every code by their program against the same networks layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.steppers import Stepper
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.errors import ParamsError
from petabatch.layers import LCA, BaseTimeScale
from petabatch.network.build import build
from petabatch.network.lazy_codes import continues
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import L0, L1, L2, Energy
from petabatch.probes.cost import Cost
from petabatch.probes.terms import Sum
from petabatch.spec.network import Network, Until
from petabatch.spec.parts import DISPLAY, Probe
from petabatch.spec.schedule import Every
from support.lazy_runs import begin, changed, finish, last_state, saved
from support.networks import assert_same, collect, images, lca_network, simulate
from support.optimum import problem
from support.sparse_coding import CODES, SCALES, network


def arrays_of(one: Network, threads: int = 1) -> dict[str, np.ndarray]:
    return simulate(one, threads)[0].state.saved()


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], atol: float = 2e-5) -> None:
    for path, values in expected.items():
        np.testing.assert_allclose(found[path], values, rtol=1e-4, atol=atol, err_msg=path)


def stepper(one: Network) -> Stepper:
    return Engine(schedule(build(one)), Serial(), 1).lanes[0].stepper


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("features", "mode"), [(12, "extra_shared"), (32, "extra_shared"), (32, "extra_non_shared")]
)
@pytest.mark.parametrize("code", CODES)
def test_a_compiled_layer_agrees_with_its_own_update(code: str, features: int, mode: str) -> None:
    one = network(code, features=features, mode=mode, learn=False)
    assert isinstance(stepper(one), ProgramStepper)
    found, expected = (simulate(changed(one, kernel=kernel))[1] for kernel in ("auto", "array"))
    assert expected["layers/V1/A"].any()
    assert_close(found, expected)


@pytest.mark.parametrize("code", CODES)
def test_energy_of_every_step_changes_no_bit_and_stops_no_loop(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, run = [], ProgramStepper.run_together

    def counted(
        self: ProgramStepper, slices: Sequence[Stepper], first: int, last: int, new_image: bool
    ) -> Sequence[np.ndarray]:
        calls.append(last - first)
        return run(self, slices, first, last, new_image)

    monkeypatch.setattr(ProgramStepper, "run_together", counted)
    seen = arrays_of(network(code, Every(1), slices=1))
    assert calls == [20, 20, 20]
    assert_same(seen, arrays_of(network(code, slices=1)))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("code", ["lca", "heavy_ball", "ista"])
def test_compiled_time_scales_agree_with_the_controllers(code: str, scale: str) -> None:
    keys = {"time_scale": SCALES[scale]}
    found, expected = (
        arrays_of(network(code, keys=keys, learn=False, kernel=kernel)) for kernel in ("auto", "array")
    )
    assert (expected["layers/V1/time_scale"] > 0.6).all()
    assert_close(found, expected)


@pytest.mark.parametrize("scale", SCALES)
def test_a_time_scale_has_the_same_bits_however_it_is_watched(scale: str) -> None:
    keys = {"time_scale": SCALES[scale]}
    plain = arrays_of(network(keys=keys))
    assert_same(arrays_of(network(keys=keys, every=Every(1))), plain)
    assert_same(arrays_of(network(keys=keys), threads=3), plain)
    # A probe that needs the layers themselves stops the loop in odd places.
    stopping: dict[str, Probe] = {"silent": L0(layer="V1", above=0.1, every=Every(7))}
    assert_same(arrays_of(network(keys=keys, probes=stopping)), plain)


def resumed(one: Network, stop: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the last state of a run that is resumed on other threads, and of one that is not."""
    plan = schedule(build(one))
    first, second = begin(replace(plan, stops=(stop,))), Engine(plan, Serial(), 2)
    next(step for step in drive(first) if step == stop)
    second.resume(stop, saved(first))
    return finish(second), finish(begin(plan))


def test_a_run_resumed_in_the_middle_of_a_display_keeps_its_time_scale() -> None:
    assert_same(*resumed(network(keys={"time_scale": SCALES["knee"]}), 27))


@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
@pytest.mark.parametrize("stop", [7, 20, 33])
def test_a_lazily_evaluated_run_that_learns_resumes_at_any_step(stop: int, reduce: str) -> None:
    assert_same(*resumed(lca_network(images(3), reduce=reduce, kernel="lazy"), stop))


def test_a_time_scale_that_follows_what_a_program_does_not_sum_still_runs() -> None:
    energy = Energy(error="error", code="V1", coefficient=0.4, cost="firm", corner=0.6, every=DISPLAY)
    one = network(keys={"time_scale": BaseTimeScale(energy="firm")}, probes={"firm": energy}, learn=False)
    assert isinstance(stepper(one), ProgramStepper)
    assert not stepper(one).follows
    assert_close(arrays_of(one), arrays_of(changed(one, kernel="array")))


def test_what_a_program_measures_is_what_the_probes_do(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert len(stepper(one).probes.recordings) == 13
    monkeypatch.setattr(StepProbes, "of", lambda *_: StepProbes.none())
    assert not stepper(one).probes.recordings
    for path, values in simulate(one)[1].items():
        np.testing.assert_allclose(found[path], values, rtol=1e-12, err_msg=path)


@pytest.mark.parametrize("method", ["lca", "fista"])
def test_energies_of_slices_that_rest_are_recorded(method: str) -> None:
    plain = problem(slices=2, items=2).network(method, 0.1, 90, displays=2, every=90, precision="float32")
    energy = plain.probes["energy"].model_copy(update={"every": Every(1)})
    one = changed(
        plain.model_copy(update={"probes": {**plain.probes, "energy": energy}}),
        until=Until(gap=0.05, every=7),
    )
    found, expected = (simulate(changed(one, kernel=kernel))[1] for kernel in ("auto", "array"))
    assert (expected["probes/until/steps"] < 90).any()
    assert_close(found, expected)


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_a_run_that_learns_agrees_with_the_reference(kernel: str, mode: str) -> None:
    one = lca_network(images(3), mode=mode, kernel=kernel)
    engine, found = simulate(one)
    assert bool(engine.plan.method.program.lazy) == (kernel == "lazy")
    _, expected = simulate(changed(one, kernel="array"))
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_allclose(found[path], values, rtol=1e-3, atol=2e-4, err_msg=path)


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_observing_a_lazily_evaluated_run_changes_no_bit(mode: str) -> None:
    seen, unseen = (
        lca_network(images(2), mode=mode, kernel="lazy", **keys) for keys in ({"record": Every(1)}, {})
    )
    assert_same(last_state(seen)[1], last_state(unseen.model_copy(update={"probes": {}}))[1])


def test_what_another_version_kept_is_ignored_and_the_code_starts_from_its_potential() -> None:
    plan = schedule(build(lca_network(images(2), kernel="lazy")))
    first, second = begin(plan), begin(plan)
    next(step for step in drive(first) if step == 20)
    kept = saved(first)
    kept["lazy/V1/history"] = np.full((2, 3, 4, 5), 1e6, np.float32)
    second.resume(20, kept)
    found, expected = finish(second)["layers/V1/A"], collect(first)["layers/V1/A"][-1]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-3, atol=2e-4)


def test_slices_continue_from_all_that_was_kept_or_from_nothing_of_it() -> None:
    here = {f"lazy/V1/{name}": np.zeros((2, 5)) for name in ("history", "decay", "awake")}
    assert continues(here, {key: np.zeros((7, 5)) for key in here})  # another batch
    assert not continues(here, {**here, "lazy/V1/history": np.zeros((2, 3, 4))})
    assert not continues(here, {"lazy/V1/history": here["lazy/V1/history"]})
    assert continues({}, here)  # no code is lazily evaluated here


def test_codes_that_cannot_be_lazily_evaluated_are_refused_and_dense_with_auto() -> None:
    large: dict[str, Any] = {"features": 64, "patch": (8, 8), "display": 400}
    data = images(1, 1, (32, 32, 3))

    def lazily(kernel: str, keys: dict[str, Any], **code: Any) -> bool:
        one = lca_network(data, kernel=kernel, **keys)
        layers = {**one.layers, "V1": LCA(**{**dict(one.layers["V1"]), **code})}
        plan = schedule(build(one.model_copy(update={"layers": layers})))
        return bool(plan.method.program.lazy)

    assert lazily("auto", large)
    for keys in ({"display": 8}, {"features": 2}):
        assert not lazily("auto", {**large, **keys})
        assert lazily("lazy", {**large, **keys})
    for code in ({"minimum": 0.1}, {"threshold": 0.0}):
        assert not lazily("auto", large, **code)
        with pytest.raises(ParamsError, match="this kernel cannot run this network"):
            lazily("lazy", large, **code)
    with pytest.raises(ParamsError, match="this kernel cannot run this network"):
        lazily("lazy", {**large, "precision": "float64"})
