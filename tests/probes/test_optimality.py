"""At rest an LCA has solved the LASSO, and the optimality probe knows how far from it a code is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from petabatch.connections import Sparse
from petabatch.engine.features import AllFeatures
from petabatch.engine.start import Start
from petabatch.engine.state import State
from petabatch.errors import ParamsError, TableError
from petabatch.layers import LCA
from petabatch.network.build import build
from petabatch.network.graph import Graph
from petabatch.network.plan import schedule
from petabatch.probes import Optimality
from petabatch.report.stability import StepLimit, step_limits
from petabatch.spec.network import Network, Run
from support.optimum import METHODS, problem

CASES = [
    {"shape": (9, 7, 1), "features": 3, "patch": (3, 5), "stride": 1},
    {"shape": (8, 12, 3), "features": 8, "patch": (4, 6), "stride": 2},
    {"shape": (16, 8, 2), "features": 24, "patch": (8, 8), "stride": 4},
]


def test_synapses_count_as_the_patches_with_their_weights() -> None:
    inhibition = np.array([[0.0, 2.0, 0.5], [2.0, 0.0, 1.0], [0.5, 1.0, 0.0]])
    synapses = Sparse(
        pre="code", post="code", channel="inh", feedback=True, matrix=sparse.coo_array(inhibition)
    )
    network = Network(
        run=Run(steps=1), layers={"code": LCA(shape=(1, 1, 3), tau=10.0)}, connections={"lateral": synapses}
    )
    (limit,) = limits_of(build(network))
    assert limit.curvature == pytest.approx(np.linalg.eigvalsh(inhibition).max(), rel=1e-3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"stride{case['stride']}")
def test_a_rested_lca_has_solved_the_lasso(case: dict[str, Any], signed: bool) -> None:
    one = problem(**case, signed=signed)
    found = one.run("lca", 1.5 / one.curvature, 3000, every=3000)
    code, lasso = found["layers/V1/A"][-1, 0], one.solved()
    assert one.violation(code) < 1e-3 * one.threshold
    assert one.energy(code) == pytest.approx(one.energy(lasso), rel=1e-4)
    assert np.abs(code - lasso).max() < 1e-2 * np.abs(lasso).max()
    assert 0.02 < np.mean(code != 0) < 0.9  # neither silent nor dense: the conditions are all at work
    assert signed == bool((code < 0).any())


@pytest.mark.parametrize("signed", [False, True])
def test_the_probe_measures_the_activity_of_its_own_step(signed: bool) -> None:
    one = problem(signed=signed, slices=2)
    found = one.run("lca", 0.5 / one.curvature, 15, every=15)
    for number in (0, 1):
        code = found["layers/V1/A"][-1, number]
        assert found["energy"][-1, number] == pytest.approx(one.energy(code, number), rel=1e-6)
        assert found["kkt"][-1, number] == pytest.approx(one.violation(code, number), rel=1e-6)
    relative = found["gap"] / found["energy"]
    np.testing.assert_allclose(found["relative_gap"], relative)


@settings(max_examples=200, deadline=None)
@given(
    method=st.sampled_from(sorted(METHODS)),
    shape=st.tuples(st.sampled_from([4, 8]), st.sampled_from([4, 8, 12]), st.integers(1, 2)),
    features=st.integers(1, 5),
    patch=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.sampled_from([1, 2, 4]),
    threshold=st.floats(0.05, 3.0),
    signed=st.booleans(),
    steps=st.integers(1, 8),
    seed=st.integers(0, 2**16),
)
def test_the_gap_bounds_the_true_excess(
    method: str,
    shape: tuple[int, int, int],
    features: int,
    patch: tuple[int, int],
    stride: int,
    threshold: float,
    signed: bool,
    steps: int,
    seed: int,
) -> None:
    one = problem(shape, features, patch, stride, threshold, signed, seed=seed)
    found = one.run(method, min(0.9, 0.9 / one.curvature), steps, kernel="array")
    # The solver stops within 1e-10 of the image's energy, so its energy is a minimum up to that.
    rounding = 1e-9 * float(np.square(one.data).sum())
    excess = found["energy"] - one.energy(one.solved())
    assert np.all(excess >= -rounding)
    assert np.all(excess <= found["gap"] + rounding)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_gap_closes(method: str) -> None:
    one = problem(threshold=0.8)
    found = one.run(method, 0.9 / one.curvature, 1500, every=5)
    assert found["relative_gap"][0, 0] > 1e-3
    assert found["relative_gap"][-1, 0] < 1e-6


def test_a_negative_activity_has_no_certificate_unless_codes_are_signed() -> None:
    code = np.array([[[[1.0, -0.5]]]])

    class Given:
        def __call__(self, layer: str, variable: str) -> Any:
            return code if layer == "code" else np.ones((1, 1, 1, 2))

        def through(self, connection: str, activity: Any) -> Any:
            return activity

    names = {"image": "image", "reconstruction": "recon", "code": "code", "drive": "drive"}
    plain = Optimality(**names, coefficient=0.5).measure(Given(), np)
    signed = Optimality(**names, coefficient=0.5, signed=True).measure(Given(), np)
    assert np.isinf(plain["gap"]).all()
    assert np.isinf(plain["kkt"]).all()
    assert np.isfinite(signed["gap"]).all()


def test_a_dangling_connection_of_a_probe_is_an_error_before_the_run() -> None:
    network = problem().network("lca", 0.1, 2)
    probe = network.probes["optimum"].model_copy(update={"drive": "driv"})
    with pytest.raises(ParamsError, match="did you mean drive"):
        build(network.model_copy(update={"probes": {"optimum": probe}}))


def test_a_price_of_zero_has_no_certificate() -> None:
    with pytest.raises(TableError, match="coefficient"):
        Optimality(image="a", reconstruction="b", code="c", drive="d", coefficient=0.0)


def limits_of(graph: Graph) -> tuple[StepLimit, ...]:
    state = State(graph, graph.variables, 0, 1)
    Start(state, AllFeatures(schedule(graph))).fill({})
    return step_limits(state)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_energy_never_rises_up_to_one_over_the_curvature(share: float, signed: bool) -> None:
    one = problem(signed=signed, slices=3)
    energy = one.run("lca", share / one.curvature, 300)["energy"]
    assert np.all(np.diff(energy, axis=0) <= 1e-12 * energy[:-1])
    assert np.all(energy[-1] < 0.95 * energy[0])


def test_the_lca_diverges_beyond_twice_that_and_not_before() -> None:
    one = problem(signed=True, threshold=0.01)
    (limit,) = limits_of(build(one.network("lca", 0.1, 1)))
    below = one.run("lca", 0.95 * limit.largest, 2000, every=2000)
    assert below["relative_gap"][-1, 0] < 1e-3
    beyond = one.run("lca", 1.05 * limit.largest, 400)["energy"]
    assert beyond[-1, 0] > 1e6 * beyond[0, 0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"stride{case['stride']}")
def test_power_iteration_finds_the_largest_eigenvalue(case: dict[str, Any]) -> None:
    one = problem(**case)
    (limit,) = limits_of(build(one.network("lca", 0.1, 1)))
    assert limit.curvature == pytest.approx(one.curvature, rel=1e-2)
    assert limit.curvature <= one.curvature * (1 + 1e-6)
    assert limit.step == pytest.approx(0.1)
    assert limit.exceeded == (2 / limit.curvature < 0.1)


def test_each_method_has_its_own_limit() -> None:
    one = problem()
    (lca,), (ball,), fista = (
        limits_of(build(one.network(method, 0.1, 1))) for method in ("lca", "heavy_ball", "fista")
    )
    assert ball.largest == pytest.approx(1.9 * lca.largest)
    assert fista == ()  # it finds its step as it goes


def test_fewer_units_are_active_and_less_is_explained_as_the_price_rises() -> None:
    prices = (0.1, 0.3, 0.9, 2.7)
    active, error = [], []
    for price in prices:
        one = problem(threshold=price)
        code = one.run("fista", 0.9 / one.curvature, 300, every=300)["layers/V1/A"][-1, 0]
        active.append(np.count_nonzero(code))
        error.append(np.square(one.data.ravel() - one.matrix @ code.ravel()).sum())
    assert active == sorted(active, reverse=True)
    assert error == sorted(error)
    assert active[0] > active[-1]
