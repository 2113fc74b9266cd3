"""Synthetic images: their statistics, and what they depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.errors import TableError
from petabatch.sources import Bars, DeadLeaves, Gratings, Noise

ALL = [Bars(), DeadLeaves(), Gratings(), Noise()]


@pytest.mark.parametrize("source", ALL, ids=lambda source: source.type)
def test_images_depend_on_seed_slice_and_display_alone(source: Any) -> None:
    one, other = source.open((12, 14, 3), 2, 5), source.open((12, 14, 3), 7, 5)
    images = [one(b, display) for b in range(2) for display in range(3)]
    assert all(image.shape == (12, 14, 3) and image.dtype == np.float32 for image in images)
    assert np.array_equal(images, [other(b, display) for b in range(2) for display in range(3)])
    assert not np.array_equal(one(0, 0), one(1, 0))
    assert not np.array_equal(one(0, 1), source.open((12, 14, 3), 2, 6)(0, 1))
    same = source.model_copy(update={"slices": "same"}).open((12, 14, 3), 2, 5)
    assert np.array_equal(same(1, 2), one(0, 2))


def test_each_bar_is_present_with_its_probability() -> None:
    read = Bars(probability=0.25, overlap="add").open((6, 8, 1), 1, 1)
    images = np.stack([read(0, display)[..., 0] for display in range(2000)])
    assert set(np.unique(images)) == {0.0, 1.0, 2.0}
    rows = (images.min(axis=2) >= 1).mean(axis=0)
    assert abs(rows - 0.25).max() < 0.05
    assert np.linalg.matrix_rank(images[0] - images[0, :1]) <= 1


def test_noise_falls_off_with_frequency_as_its_exponent_says() -> None:
    for exponent in (0.0, 1.0, 2.0):
        read = Noise(exponent=exponent).open((128, 128, 1), 1, 1)
        amplitude = np.mean([abs(np.fft.fft2(read(0, i)[..., 0])) for i in range(4)], axis=0)
        frequency = np.hypot(np.fft.fftfreq(128)[:, None], np.fft.fftfreq(128)[None])
        band = (frequency > 0.03) & (frequency < 0.4)
        slope = np.polyfit(np.log(frequency[band]), np.log(amplitude[band]), 1)[0]
        assert slope == pytest.approx(-exponent, abs=0.05)
        assert read(0, 0).std() == pytest.approx(1.0, abs=1e-4)


def test_gratings_move_by_their_speed_along_one_direction() -> None:
    read = Gratings(wavelength=8.0, speed=2.0, frames=5).open((16, 16, 1), 1, 3)
    frames = np.stack([read(0, display)[..., 0] for display in range(10)])
    assert np.allclose(frames[0], frames[4], atol=1e-6)  # four displays of two pixels are one wavelength
    assert not np.allclose(frames[0], frames[1], atol=0.1)
    assert not np.allclose(frames[4], frames[5], atol=0.1)


def test_leaves_cover_the_image_with_discs_of_one_colour() -> None:
    read = DeadLeaves(smallest=3.0, largest=50.0).open((64, 64, 1), 1, 1)
    images = np.stack([read(0, display)[..., 0] for display in range(8)])
    assert (images > 0).all()
    neighbours = (images[:, :, 1:] == images[:, :, :-1]).mean()
    assert 0.7 < neighbours < 0.97
    amplitude = np.mean([abs(np.fft.fft2(image - image.mean())) for image in images], axis=0)
    frequency = np.hypot(np.fft.fftfreq(64)[:, None], np.fft.fftfreq(64)[None])
    band = (frequency > 0.03) & (frequency < 0.3)
    slope = np.polyfit(np.log(frequency[band]), np.log(amplitude[band]), 1)[0]
    assert -1.9 < slope < -0.9


def test_radii_in_the_wrong_order_are_an_error() -> None:
    with pytest.raises(ValueError, match="smallest radius is not smaller"):
        DeadLeaves(smallest=5.0, largest=4.0)


@pytest.mark.parametrize("source", ALL, ids=lambda source: source.type)
def test_contrast_is_refused_since_images_are_not_drawn_again(source: Any) -> None:
    with pytest.raises(TableError, match="a synthetic image is not drawn again"):
        type(source)(transforms=[{"type": "crop", "size": [2, 2], "contrast": 0.1}, {"type": "pad"}])
