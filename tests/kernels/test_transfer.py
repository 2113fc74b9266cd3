"""Transfer functions: the same compiled and on arrays, silent below a bound, minimising their penalties."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.rules import choose, shrink, transfer
from petabatch.kernels.transfer import (
    CORNERED,
    Cost,
    Curve,
    Polyline,
    Transfer,
    cost_of,
    minimised,
    polyline_of,
    shrink_of,
)

V = np.linspace(-2, 2, 4001, dtype=np.float32)
THRESHOLD, WIDTH = 0.35, 0.4
NAMES = get_args(Transfer)
CURVES = [
    Curve.of(name, THRESHOLD, width=WIDTH if name == "firm" else 0.0, signed=signed, **others)
    for name in NAMES
    for signed, others in ((False, {}), (True, {}), (True, {"maximum": 0.6}), (False, {"minimum": 0.01}))
]


def compiled(curve: Curve) -> Curve:
    return Curve(*(value if type(value) in (int, bool) else np.float32(value) for value in curve))


def activity(curve: Curve | Polyline, potential: np.ndarray = V) -> np.ndarray:
    out = np.empty_like(potential)
    curve.on(potential, out, np)
    return out


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_arrays_have_the_bits_of_compiled_code_but_for_fused_products(curve: Curve) -> None:
    found = np.array([transfer(u, compiled(curve)) for u in V], np.float32)
    np.testing.assert_allclose(found, activity(curve), rtol=0, atol=1e-6)
    away = abs(abs(V) - THRESHOLD) > 1e-6
    np.testing.assert_array_equal(found[away] == 0, activity(curve)[away] == 0)


def test_a_polyline_has_the_same_bits_on_arrays() -> None:
    curve = Polyline.of(((-0.5, 0.1), (0.25, 0.3), (0.25, -0.4), (1.0, 0.7)), (0.5, -2.0))
    on = njit()(polyline_of(choose))
    corners, below = np.array(curve.corners, np.float32), np.float32(curve.below)
    found = np.array([on(u, corners, below) for u in V], np.float32)
    np.testing.assert_array_equal(found, activity(curve))


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_potentials_are_silent_below_the_bound_that_lazy_evaluation_has(curve: Curve) -> None:
    size = abs(V) if curve.signed else V
    assert (curve.silent > 0) == (curve.minimum == 0)
    if curve.silent > 0:
        assert (activity(curve)[size < np.float32(curve.silent)] == 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("u", [-0.9, 0.1, 0.34, 0.36, 0.5, 0.74, 0.76, 1.4])
def test_the_activity_minimises_half_the_squared_distance_plus_the_penalty(name: Transfer, u: float) -> None:
    width = WIDTH if name == "firm" else 0.0
    penalty = minimised(name, THRESHOLD)
    corner = THRESHOLD + width if penalty.cost in CORNERED else None
    near = np.linspace(-2, 2, 400_001)
    energy = (near - u) ** 2 / 2 + penalty.coefficient * cost_of(penalty.cost, near, 0.0, corner, np)
    mine = activity(Curve.of(name, THRESHOLD, width=width, signed=True), np.array([u]))
    assert near[energy.argmin()] == pytest.approx(mine[0], abs=2e-5)


def test_the_proximal_step_is_that_of_the_soft_threshold_with_the_price() -> None:
    for signed in (False, True):
        curve, price = Curve.of("soft", THRESHOLD, signed=signed), np.float32(0.2)
        expected = activity(Curve.of("soft", 0.2, signed=signed))
        np.testing.assert_array_equal(shrink_of(np.where)(V, price, curve), expected)
        np.testing.assert_array_equal([shrink(u, price, compiled(curve)) for u in V], expected)


@pytest.mark.parametrize("cost", get_args(Cost))
def test_costs_are_0_at_0_and_even(cost: Cost) -> None:
    found = cost_of(cost, V, 0.0, 0.7 if cost in CORNERED else None, np)
    np.testing.assert_array_equal(found, found[::-1])
    assert found[V == 0] == 0
