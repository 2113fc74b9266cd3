"""A bank of Gabor functions."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from petabatch.spec.model import Finite, Positive
from petabatch.spec.weights import Initial
from petabatch.weights.grid import turned


class Gabor(Initial):
    """W = exp(-(u^2 + aspect^2 v^2) / (2 (width wavelength)^2)) cos(2 pi u / wavelength - phase), zero mean.

    u and v are distances from the centre of the patch along and across a direction, in post units (Daugman
    1985). The pre features are all combinations of directions, wavelengths and phases, phases changing
    fastest; there are as many directions as the features ask for, evenly in half a turn. From each patch its
    envelope is subtracted in proportion, so that it sums to 0. All post features get the same.
    """

    type: Literal["gabor"] = "gabor"
    wavelengths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (4.0,)
    """In post units."""
    phases: Annotated[tuple[Finite, ...], Field(min_length=1)] = (0.0, 90.0)
    """In degrees: 0 is even, 90 odd."""
    width: Positive = 0.5
    """Standard deviation of the envelope along the wave, in wavelengths; 0.56 is one octave."""
    aspect: Positive = 0.5
    """How much narrower the envelope is across; below 1 it is longer than wide."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Compute them; nothing is random."""
        features, rows, columns, _ = shape[-4:]
        directions = -(-features // (len(self.wavelengths) * len(self.phases)))
        angles = [np.pi * number / directions for number in range(directions)]
        bank = list(product(angles, self.wavelengths, self.phases))[:features]
        patches = np.stack([self._patch(rows, columns, *one) for one in bank])
        return np.broadcast_to(patches[..., None], shape).copy()

    def _patch(self, rows: int, columns: int, angle: float, wavelength: float, phase: float) -> np.ndarray:
        u, v = turned(rows, columns, angle)
        envelope = np.exp(-(u**2 + (self.aspect * v) ** 2) / (2 * (self.width * wavelength) ** 2))
        patch = envelope * np.cos(2 * np.pi * u / wavelength - np.deg2rad(phase))
        return np.asarray(patch - envelope * (patch.sum() / envelope.sum()))
