"""Heavy-ball LCA and FISTA: the LCA's optimum, on the LCA's network, in fewer steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.layers import HeavyBall
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP
from petabatch.spec.schedule import Every
from petabatch.weights import Uniform
from support.networks import GivenWeights, simulate
from support.optimum import METHODS, Problem, problem

FAST = ["heavy_ball", "fista"]


def steps_to(one: Problem, method: str, step: float, excess: float, most: int = 1500) -> int:
    """Return the first step after which the energy stays within a fraction of its minimum."""
    energy = one.run(method, step, most)["energy"][:, 0]
    above = energy > (1 + excess) * one.energy(one.solved())
    return int(np.flatnonzero(above)[-1]) + 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("method", FAST)
def test_the_optimum_is_reached(method: str, stride: int, signed: bool) -> None:
    one = problem((8, 12, 2), 3 * stride, stride=stride, signed=signed)
    code = one.run(method, 0.9 / one.curvature, 1000, every=1000)["layers/V1/A"][-1, 0]
    assert one.violation(code) < 1e-3 * one.threshold
    assert one.energy(code) == pytest.approx(one.energy(one.solved()), rel=1e-6)


@pytest.mark.long
def test_both_are_several_times_faster_than_the_lca_at_its_usual_step() -> None:
    one = problem((12, 12, 1), 24, stride=2, threshold=0.3)
    step = 0.1 / one.curvature
    found = {method: steps_to(one, method, step, 1e-2) for method in METHODS}
    assert found["heavy_ball"] < found["lca"] / 4
    assert found["fista"] < found["lca"] / 4


def test_without_inertia_heavy_ball_is_the_lca() -> None:
    one = problem(slices=2, items=2)
    options = {"displays": 2, "kernel": "array", "precision": "float32"}
    lca = one.run("lca", 0.05, 30, **options)
    ball = one.run("heavy_ball", 0.05, 30, beta=0.0, **options)
    assert lca["layers/V1/A"].any()
    for name, values in lca.items():
        np.testing.assert_array_equal(values, ball[name], err_msg=name)


@pytest.mark.parametrize("method", FAST)
def test_a_slice_does_not_know_of_the_others(method: str) -> None:
    together = problem(slices=3, items=2)
    options = {"displays": 2, "precision": "float32"}
    whole = together.run(method, 0.1, 25, **options)
    for number in range(3):
        alone = together.at(data=together.data[number : number + 1]).run(method, 0.1, 25, **options)
        for name, values in alone.items():
            np.testing.assert_array_equal(values[:, 0], whole[name][:, number], err_msg=name)


@pytest.mark.parametrize("method", FAST)
def test_the_next_image_is_solved_as_well_as_the_first(method: str) -> None:
    one = problem(items=2)
    step = 0.9 / one.curvature
    second = one.run(method, step, 600, every=600, displays=2)["energy"][-1, 0]
    assert second == pytest.approx(
        one.at(data=one.data[:, 1:]).run(method, step, 600)["energy"][-1, 0], rel=1e-9
    )


def test_fista_drops_its_momentum_when_the_image_changes() -> None:
    one = problem(items=2)
    network = one.network("fista", 0.1, 60, displays=2)
    every = LayerOutput(every=Every(1), variables=("A", "step"))
    found = simulate(network.model_copy(update={"output": Output(layers={"V1": every})}))[1]
    # One plain proximal step from the last code, on the new image.
    before, step = found["layers/V1/A"][59, 0].ravel(), found["layers/V1/step"][60, 0]
    slope = one.matrix.T @ (one.data[0, 1].ravel() - one.matrix @ before)
    after = np.maximum(before + step * slope - step * one.threshold, 0)
    np.testing.assert_allclose(found["layers/V1/A"][60, 0].ravel(), after, atol=1e-6)
    assert np.abs(after - before).max() > 1e-2


def test_fista_publishes_a_sparse_code_at_every_step() -> None:
    one = problem(threshold=0.8)
    network = one.network("fista", 0.9 / one.curvature, 1, displays=100)
    codes = simulate(network)[1]["layers/V1/A"]
    assert codes.shape[0] == 100
    assert codes.min() == 0
    assert np.all(np.mean(codes[10:] != 0, axis=(1, 2, 3, 4)) < 0.5)


@pytest.mark.parametrize("first", [0.01, 1.0, 20.0])
def test_fista_finds_its_step(first: float) -> None:
    one = problem(signed=True, threshold=0.05)
    found = one.run("fista", first / one.curvature, 600, every=600)
    assert found["relative_gap"][-1, 0] < 1e-3


@pytest.mark.parametrize("kernel", ["array", "auto"])
@pytest.mark.parametrize("norm", [1e-3, 1e2, 1e4, 1e6])
def test_fista_finds_its_step_for_dictionaries_of_any_norm(norm: float, kernel: str) -> None:
    one = problem(signed=True)
    one = one.at(weights=one.weights * norm, threshold=one.threshold * norm)
    found = one.run("fista", 0.01, 600, every=600, precision="float32", kernel=kernel)
    assert found["relative_gap"][-1, 0] < 1e-3


@pytest.mark.parametrize("kernel", ["array", "auto"])
def test_a_black_image_does_not_change_the_step_of_fista(kernel: str) -> None:
    one = problem(items=2)
    one.data[:, 0] = 0
    network = one.network("fista", 0.1, 800, every=800, displays=2, precision="float32", kernel=kernel)
    sizes = LayerOutput(every=Every(1), variables=("step",))
    found = simulate(network.model_copy(update={"output": Output(layers={"V1": sizes})}))[1]
    assert (found["layers/V1/step"][:800] == 0.1).all()
    assert found["probes/optimum/relative_gap"][-1, 0] < 1e-3


def test_the_step_of_fista_survives_rounding_noise_at_the_optimum() -> None:
    one = problem(items=2)
    network = one.network("fista", 0.1, 1500, displays=2, precision="float32")
    sizes = LayerOutput(every=Every(100), variables=("step",))
    found = simulate(network.model_copy(update={"output": Output(layers={"V1": sizes})}))[1]
    assert found["layers/V1/step"].min() > 0.05 / one.curvature
    assert found["probes/optimum/relative_gap"][1500 + 150, 0] < 1e-3


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_heavy_ball_begins_without_momentum_wherever_its_potential_starts(kernel: str) -> None:
    kept = Uniform(low=0.4, high=0.9)
    starts: list[dict[str, Any]] = [
        {"V": kept},
        {"V": kept, "V_before": GivenWeights(data=np.zeros((1, 1, 5)))},
    ]
    moved = []
    for start in starts:
        layer = HeavyBall(shape=(1, 1, 5), tau=1e6, threshold=2.0, beta=0.5, start=start)
        output = Output(layers={"c": LayerOutput(every=STEP, variables=("V",))})
        net = Network(run=Run(steps=1, kernel=kernel), layers={"c": layer}, output=output)  # type: ignore[arg-type]
        result = in_memory.run(net, at=[0])
        moved.append((result.recorded["layers/c/V"][0] - result.states["layers/c/V"][0]).ravel())
    np.testing.assert_allclose(moved[0], 0, atol=1e-5)
    assert (moved[1] > 0.19).all()
