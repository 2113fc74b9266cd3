"""Codes of images with dictionaries of any norm, as near to the optimum as they say."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import petabatch
from petabatch.coding.solvers import curvature
from petabatch.errors import InputError
from support.lasso_problems import NORMS, drawn
from support.optimum import problem


@pytest.mark.parametrize("seed", range(12))
def test_codes_of_random_problems_are_as_near_to_the_optimum_as_they_say(seed: int) -> None:
    assert not list(drawn(seed).faults())


@pytest.mark.parametrize("signed", [False, True])
def test_the_norm_of_a_dictionary_only_scales_its_codes(signed: bool) -> None:
    given = problem(slices=2, signed=signed)
    images, atoms = given.data[:, 0], given.weights[0, 0]
    unit = petabatch.encode(images, atoms, given.threshold, stride=2, signed=signed, threads=1)
    assert (unit.gap <= 1e-2).all()
    for norm in (2.0**-100, *(2.0 ** round(np.log2(norm)) for norm in NORMS), 2.0**100):
        scaled = petabatch.encode(
            images, atoms * norm, given.threshold * norm, stride=2, signed=signed, threads=1
        )
        np.testing.assert_array_equal(scaled.activity * np.float32(norm), unit.activity)
        np.testing.assert_array_equal(scaled.gap, unit.gap)


def test_the_norm_of_a_dictionary_of_whole_images_only_scales_their_codes() -> None:
    rng = np.random.default_rng(0)
    images, atoms = rng.standard_normal((5, 4, 4, 1)), rng.standard_normal((6, 4, 4, 1))
    unit = petabatch.encode(images, atoms, 0.5, stride=4, threads=1)
    assert unit.gap.max() < 1e-5
    for norm in (2.0**-100, 2.0**100):
        scaled = petabatch.encode(images, atoms * norm, 0.5 * norm, stride=4, threads=1)
        np.testing.assert_array_equal(scaled.activity * np.float32(norm), unit.activity)
        np.testing.assert_array_equal(scaled.gap, unit.gap)
    images[3] = 3e38
    with pytest.raises(InputError, match=r"images\[3\].*beyond the range of float32"):
        petabatch.encode(images, np.abs(atoms), 0.5, stride=4)
    images[3] = 1e12
    with pytest.raises(InputError, match=r"images\[3\].*beyond the range of float32"):
        petabatch.encode(images, np.abs(atoms) * 1e-30, 1e-31, stride=4)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_no_code_is_worse_than_none_however_few_the_steps(steps: int) -> None:
    given = problem(slices=2, signed=True, stride=1, features=8)
    atoms = np.abs(given.weights) * 3e3  # of one sign, overlapping: the largest eigenvalue is 1e9
    given = given.at(weights=atoms, threshold=100.0)
    codes = petabatch.encode(
        given.data[:, 0], atoms[0, 0], 100.0, stride=1, signed=True, steps=steps, gap=1e-9
    )
    for number in range(2):
        assert given.energy(codes.activity[number].astype(float), number) <= given.energy(
            np.zeros(given.code), number
        )


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_the_curvature_is_that_of_the_operator(stride: int) -> None:
    given = problem((12, 12, 1), features=2, patch=(5, 4), stride=stride)
    assert curvature(given.weights[0, 0], stride) == pytest.approx(given.curvature, rel=0.2)


def test_codes_beyond_float32_are_errors_that_name_the_image() -> None:
    given = problem(slices=2)
    images, atoms = given.data[:, 0].copy(), given.weights[0, 0]
    images[1] *= 1e12
    with pytest.raises(InputError, match=r"images\[1\].*beyond the range of float32") as caught:
        petabatch.encode(images, atoms * 1e-30, 1e-31, stride=2)
    assert not any(word in str(caught.value) for word in ("run.dt", "tau", "learn.rate"))
    images[1] = 3e38  # its code is no number, whatever the dictionary
    with pytest.raises(InputError, match=r"images\[1\].*beyond the range of float32"):
        petabatch.encode(images, np.abs(atoms), 0.4, stride=2)


def test_images_that_did_not_converge_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    given = problem(slices=3)
    images, atoms = given.data[:, 0], given.weights[0, 0]
    with caplog.at_level(logging.WARNING, "petabatch"):
        petabatch.encode(images, atoms, 0.4, stride=2)
        assert not caplog.records
        codes = petabatch.encode(images, atoms, 0.4, stride=2, gap=1e-6, steps=10)
    assert [one.getMessage() for one in caplog.records] == [
        f"gap: 3 of 3 images above 1e-06 after 10 steps, at most {codes.gap.max():.2g}: "
        "more `steps`, or a larger threshold"
    ]
