"""Codes of vectors: minima of the LASSO whatever the dictionary is, the same bits for an item anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso as ScikitLearn

from petabatch.errors import ArgumentError
from petabatch.lasso import Lasso, solver


def relative_gap(
    items: np.ndarray, dictionary: np.ndarray, code: np.ndarray, penalty: float, signed: bool
) -> np.ndarray:
    """Return the duality gap of each code by its definition, in float64."""
    x, d, a = (one.astype(float) for one in (items, dictionary, code))
    r = x - a @ d
    slope = r @ d.T
    steepest = (np.abs(slope) if signed else slope).max(axis=1, initial=0)
    shrink = penalty / np.maximum(steepest, penalty)
    squares = (r**2).sum(axis=1)
    energy = 0.5 * squares + penalty * np.abs(a).sum(axis=1)
    dual = shrink * (r * x).sum(axis=1) - 0.5 * shrink**2 * squares
    return np.where(energy > 0, (energy - dual) / np.maximum(energy, 1e-300), 0)


def drawn(
    atoms: int, pixels: int, items: int, seed: int, dtype: str = "float32"
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((atoms, pixels))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    return 3 * rng.standard_normal((items, pixels)).astype(dtype), dictionary.astype(dtype)


def unusual(kind: str, atoms: int, pixels: int, seed: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return five items and a dictionary whose atoms depend on each other, or differ in length."""
    items, dictionary = drawn(atoms, pixels, 5, seed, dtype)
    half, rng = atoms // 2, np.random.default_rng(seed + 1)
    if kind == "equal":
        dictionary[half:] = dictionary[0]
    elif kind == "opposite":
        dictionary[half : 2 * half] = -dictionary[:half]
    elif kind == "zero":
        dictionary[half:] = items[0] = 0
    elif kind == "dependent":
        dictionary = (rng.standard_normal((atoms, 2)) @ rng.standard_normal((2, pixels))).astype(dtype)
    elif kind == "scaled":
        dictionary *= (10.0 ** rng.integers(-1, 2, (atoms, 1))).astype(dtype)
    elif kind == "whole":  # ties: correlations that are equal to the bit
        dictionary = rng.integers(-1, 2, dictionary.shape).astype(dtype)
        items = rng.integers(-2, 3, items.shape).astype(dtype)
    elif kind == "parallel":
        dictionary[half:] = dictionary[0] + 1e-3 * dictionary[half:]
    return items, dictionary


KINDS = ("plain", "equal", "opposite", "zero", "dependent", "scaled", "whole", "parallel")


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 24),
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from(["float32", "float64"]),
    st.floats(-1.5, 1),
    st.sampled_from(KINDS),
)
def test_codes_are_minima_whatever_the_atoms_are(
    atoms: int, pixels: int, seed: int, signed: bool, dtype: str, exponent: float, kind: str
) -> None:
    items, dictionary = unusual(kind, atoms, pixels, seed, dtype)
    penalty = 10.0**exponent
    found = Lasso(dictionary, penalty, signed=signed, gap=1e-3).solve(items, 1)
    gap = relative_gap(items, dictionary, found.code, penalty, signed)
    assert ((found.gap <= 1e-3) | (found.steps >= 1000)).all()
    np.testing.assert_allclose(found.gap, gap, atol=2e-4 if dtype == "float32" else 1e-9)
    assert signed or (found.code >= 0).all()
    np.testing.assert_array_equal(found.active, np.count_nonzero(found.code, axis=1))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_codes_are_those_of_scikit_learn(signed: bool, dtype: str) -> None:
    items, dictionary = drawn(40, 16, 6, 3, dtype)
    found = Lasso(dictionary, 0.7, signed=signed).solve(items)
    assert found.gap.max() < (1e-5 if dtype == "float32" else 1e-13)
    for item, code in zip(items, found.code, strict=True):
        model = ScikitLearn(0.7 / 16, fit_intercept=False, positive=not signed, tol=1e-12, max_iter=100_000)
        model.fit(dictionary.T.astype(float), item.astype(float))
        np.testing.assert_allclose(code, model.coef_, atol=1e-4 if dtype == "float32" else 1e-6)


def test_a_code_depends_on_no_other_item_no_place_and_no_threads() -> None:
    items, dictionary = drawn(50, 30, 700, 4)
    lasso = Lasso(dictionary, 0.9)
    whole, order = lasso.solve(items, 1), np.random.default_rng(0).permutation(len(items))
    for same in (lasso.solve(items, 2), Lasso(dictionary, 0.9).solve(items, 3)):
        for one, other in zip(whole, same, strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(whole, lasso.solve(items[order], 2), strict=True):
        np.testing.assert_array_equal(one[order], other)
    for number in (0, 3, 699):
        np.testing.assert_array_equal(lasso.solve(items[number : number + 1]).code[0], whole.code[number])


@pytest.mark.parametrize("signed", [False, True])
def test_coordinate_descent_reaches_the_gap_where_the_path_does_not(
    monkeypatch: pytest.MonkeyPatch, signed: bool
) -> None:
    # Every atom but the first counts as dependent on it, so that no path leads anywhere.
    monkeypatch.setattr(solver, "_TINY", {np.dtype(np.float64): 1.0})
    items, dictionary = drawn(30, 12, 20, 5, "float64")
    found = Lasso(dictionary, 0.5, signed=signed, gap=1e-3).solve(items)
    assert found.gap.max() <= 1e-3
    assert found.steps.max() > 10
    np.testing.assert_allclose(
        found.gap, relative_gap(items, dictionary, found.code, 0.5, signed), atol=1e-12
    )


def test_a_gap_that_rounding_forbids_ends() -> None:
    items, dictionary = drawn(30, 12, 20, 6)
    found = Lasso(dictionary, 0.1, gap=0.0, steps=10**9).solve(items)
    assert found.gap.max() < 1e-4


def test_what_takes_too_many_steps_says_how_far_it_got() -> None:
    items, dictionary = drawn(60, 40, 8, 7, "float64")
    found = Lasso(dictionary, 0.01, steps=3).solve(items)
    np.testing.assert_array_equal(found.steps, 3)
    np.testing.assert_array_equal(found.active, 3)
    np.testing.assert_allclose(found.gap, relative_gap(items, dictionary, found.code, 0.01, True))
    assert found.gap.min() > 0.1


def test_pixels_count_as_often_as_their_weights_say() -> None:
    items, dictionary = drawn(12, 6, 5, 8, "float64")
    twice = np.array([0, 1, 2, 2, 3, 3, 3])
    found = Lasso(dictionary, 0.4, weights=np.array([1.0, 1, 2, 3, 0, 0])).solve(items)
    expected = Lasso(dictionary[:, twice], 0.4).solve(items[:, twice])
    np.testing.assert_allclose(found.code, expected.code, atol=1e-12)


def test_numbers_that_cannot_be_coded_are_errors() -> None:
    items, dictionary = drawn(10, 6, 5, 9)
    items[3, 2] = np.nan
    with pytest.raises(ArgumentError, match=r"not finite, or too large to be coded\n.*in item 3"):
        Lasso(dictionary, 0.4).solve(items)
    with pytest.raises(
        ArgumentError, match=r"products are too large for float32\n.*atoms of a length up to 1e"
    ):
        Lasso(dictionary * np.float32(1e20), 0.4)


def test_arrays_of_other_shapes_are_errors_before_memory_is_written() -> None:
    dictionary = drawn(10, 6, 5, 9)[1]
    lasso = Lasso(dictionary, 0.4)
    for wrong in (np.ones((5, 5)), np.ones((5, 1000)), np.ones(6)):
        with pytest.raises(ArgumentError, match=r"items: these do not fit the dictionary\n.*\n.*items, 6\]"):
            lasso.solve(wrong)
    for wrong in (dictionary[0], dictionary[:0], dictionary.astype(int)):
        with pytest.raises(ArgumentError, match="dictionary: these are not atoms"):
            Lasso(wrong, 0.4)
    for weights in (np.ones(5), np.array([1, 1, 1, 1, 1, -1.0]), np.full(6, np.nan)):
        with pytest.raises(ArgumentError, match="weights: these are not weights of pixels"):
            Lasso(dictionary, 0.4, weights=weights)


@pytest.mark.parametrize("penalty", [0.0, -1.0, np.nan, np.inf])
def test_penalties_that_are_not_positive_are_errors(penalty: float) -> None:
    with pytest.raises(ArgumentError, match="penalty: the value is out of range"):
        Lasso(drawn(10, 6, 1, 0)[1], penalty)


def test_no_items_have_no_codes() -> None:
    found = Lasso(drawn(10, 6, 1, 0)[1], 0.4).solve(np.empty((0, 6)))
    assert found.code.shape == (0, 10)
