"""Sums over arrays of float32, in vectors, against numpy's in float64."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from petabatch.kernels.cpu import sums


@njit
def all_sums(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    return sums.dot(a, b), sums.wide_dot(a, b), sums.total(b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 31, 33, 75, 200])
def test_sums_are_those_of_all_numbers(size: int) -> None:
    a, b = np.random.default_rng(size).normal(size=(2, size)).astype(np.float32)
    single, double, total = all_sums(a, b)
    exact = a.astype(float) @ b.astype(float)
    assert abs(double - exact) <= 1e-13 * max(1, size)
    assert abs(single - exact) <= 1e-6 * max(1, size)
    assert abs(total - b.sum(dtype=float)) <= 1e-6 * max(1, size)


def test_whole_numbers_are_summed_exactly() -> None:
    a, b = np.random.default_rng(0).integers(-9, 9, (2, 123)).astype(np.float32)
    assert all_sums(a, b) == (a @ b, a @ b, b.sum())


def test_a_number_that_is_not_finite_is_not_lost() -> None:
    for place in (0, 40, 122):
        a, b = np.ones((2, 123), np.float32)
        b[place] = np.nan
        assert np.isnan(all_sums(a, b)).all()
