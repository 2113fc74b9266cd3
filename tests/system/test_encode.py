"""`petabatch.encode`: codes of images in memory."""

from __future__ import annotations

import numpy as np
import pytest

import petabatch
from petabatch import coding
from petabatch.errors import InputError
from support.optimum import problem


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_codes_are_as_near_to_the_optimum_as_they_say(signed: bool, stride: int) -> None:
    given = problem(stride=stride, signed=signed, slices=4)
    found = petabatch.encode(
        given.data[:, 0],
        given.weights[0, 0],
        given.threshold,
        stride=stride,
        gap=1e-3,
        signed=signed,
        threads=1,
    )
    assert found.activity.shape == (4, *given.code)
    assert (found.activity < 0).any() == signed
    assert (found.gap <= 1e-3).all()
    assert (found.steps < 1000).all()
    for number in range(4):
        energy = given.energy(found.activity[number], number)
        lowest = given.energy(given.solved(number), number)
        assert lowest * (1 - 1e-6) <= energy <= lowest / (1 - found.gap[number]) * (1 + 1e-6)


def test_a_code_depends_on_no_other_image(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(slices=5)
    images, dictionary = given.data[:, 0], given.weights[0, 0]
    whole = petabatch.encode(images, dictionary, 0.4, stride=2, threads=3)
    alone = petabatch.encode(images[3:4], dictionary, 0.4, stride=2, threads=1)
    np.testing.assert_array_equal(alone.activity, whole.activity[3:4])
    monkeypatch.setattr(coding, "_BYTES", 2 * whole.activity[0].nbytes)
    pairs = petabatch.encode(images, dictionary, 0.4, stride=2, threads=1)
    for name in ("activity", "gap", "steps"):
        np.testing.assert_array_equal(getattr(pairs, name), getattr(whole, name), err_msg=name)


def test_what_takes_too_many_steps_says_how_far_it_got() -> None:
    given = problem(slices=2)
    found = petabatch.encode(given.data[:, 0], given.weights[0, 0], 0.4, stride=2, gap=1e-6, steps=10)
    np.testing.assert_array_equal(found.steps, [10, 10])
    assert (found.gap > 1e-6).all()


def test_pixels_of_eight_bits_are_from_zero_to_one() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 12, 2), np.uint8)
    dictionary = problem().weights[0, 0]
    np.testing.assert_array_equal(
        petabatch.encode(pixels, dictionary, 0.1, stride=2).activity,
        petabatch.encode((pixels / 255).astype(np.float32), dictionary, 0.1, stride=2).activity,
    )


def test_shapes_that_do_not_fit_are_errors() -> None:
    given = problem()
    images, dictionary = given.data[:, 0], given.weights[0, 0]
    with pytest.raises(InputError, match=r"\[8, 12, 2\]"):
        petabatch.encode(images[0], dictionary, 0.4)
    with pytest.raises(InputError):
        petabatch.encode(images, dictionary[..., :1], 0.4, stride=2)
    with pytest.raises(InputError, match="stride"):
        petabatch.encode(images, dictionary, 0.4, stride=5)
