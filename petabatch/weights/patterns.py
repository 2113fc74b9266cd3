"""Deterministic weight patterns: Gabor functions, 2-D Gaussians, identity."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from petabatch.errors import InputError
from petabatch.libm import cos, exp, sin
from petabatch.spec.model import Finite, Positive
from petabatch.spec.weights import Initial


class Gabor(Initial):
    """W = exp(-(u^2 + aspect^2 v^2) / (2 (width wavelength)^2)) cos(2 pi u / wavelength - phase), zero mean.

    u and v are coordinates relative to the centre of the patch, parallel and perpendicular to the direction
    of the wave, in post units (Daugman 1985). Pre features run over all combinations of direction, wavelength
    and phase, with the phase varying fastest; as many directions as needed are spaced evenly over 180
    degrees. A multiple of the envelope is subtracted from each patch to make its sum zero. All post features
    get the same weights.
    """

    type: Literal["gabor"] = "gabor"
    wavelengths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (4.0,)
    """Wavelengths, in post units."""
    phases: Annotated[tuple[Finite, ...], Field(min_length=1)] = (0.0, 90.0)
    """Phases in degrees: 0 is even, 90 odd."""
    width: Positive = 0.5
    """Standard deviation of the envelope along the wave, in wavelengths; 0.56 gives a bandwidth of one
    octave."""
    aspect: Positive = 0.5
    """Ratio of the envelope's standard deviation along the wave to that across it; below 1 the envelope is
    elongated along the wave fronts."""

    @property
    def of_patches(self) -> bool:
        """They depend on places in a patch."""
        return True

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the Gabor functions; `rng` is not used."""
        features, rows, columns, _ = shape[-4:]
        directions = -(-features // (len(self.wavelengths) * len(self.phases)))
        angles = [np.pi * number / directions for number in range(directions)]
        bank = list(product(angles, self.wavelengths, self.phases))[:features]
        patches = np.stack([self._patch(rows, columns, *one) for one in bank])
        return np.broadcast_to(patches[..., None], shape).copy()

    def _patch(self, rows: int, columns: int, angle: float, wavelength: float, phase: float) -> np.ndarray:
        u, v = _rotated_grid(rows, columns, angle)
        envelope = exp(-(u**2 + (self.aspect * v) ** 2) / (2 * (self.width * wavelength) ** 2))
        patch = envelope * cos(2 * np.pi * u / wavelength - np.deg2rad(phase))
        return np.asarray(patch - envelope * (patch.sum() / envelope.sum()))


class Gaussian2D(Initial):
    """W = strength exp(-(u^2 + aspect^2 v^2) / (2 sigma^2)).

    u and v are coordinates relative to the centre of the patch, parallel and perpendicular to a direction, in
    post units. The directions of the pre features are spaced evenly over 180 degrees, starting along the
    columns; all post features get the same weights. Corresponds to PetaVision's Gauss2DWeight without flanks,
    which measures distances in pre units.
    """

    type: Literal["gaussian_2d"] = "gaussian_2d"
    sigma: Positive = 1.0
    """Standard deviation along the direction, in post units."""
    aspect: Positive = 1.0
    """Ratio of the standard deviation along the direction to that across it; 1 is isotropic."""
    strength: Finite = 1.0
    """Weight at the centre."""
    reach: Positive | None = None
    """Cutoff radius, in post units: weights farther from the centre are 0. By default there is no cutoff."""

    @property
    def of_patches(self) -> bool:
        """They depend on places in a patch."""
        return True

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the Gaussians; `rng` is not used."""
        features, rows, columns, _ = shape[-4:]
        patches = np.stack([self._patch(rows, columns, np.pi * f / features) for f in range(features)])
        return np.broadcast_to(patches[..., None], shape).copy()

    def _patch(self, rows: int, columns: int, angle: float) -> np.ndarray:
        u, v = _rotated_grid(rows, columns, angle)
        patch = self.strength * exp(-(u**2 + (self.aspect * v) ** 2) / (2 * self.sigma**2))
        return patch if self.reach is None else np.where(np.hypot(u, v) <= self.reach, patch, 0.0)


class IdentityWeights(Initial):
    """Weight 1 from each pre feature to the same post feature at the centre of the patch, else 0.

    The patch must have an odd number of rows and columns.
    """

    type: Literal["identity"] = "identity"

    @property
    def of_patches(self) -> bool:
        """They depend on places in a patch."""
        return True

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the weights; raises InputError if the patch has no central unit."""
        nf_pre, nyp, nxp, nf_post = shape[-4:]
        if nyp % 2 == 0 or nxp % 2 == 0:
            raise InputError(
                f"identity weights: the patch has no centre\n    found:    {nyp} rows, {nxp} columns\n"
                f"    expected: odd numbers"
            )
        weights = np.zeros(shape)
        both = np.arange(min(nf_pre, nf_post))
        weights[..., both, nyp // 2, nxp // 2, both] = 1.0
        return weights


def _rotated_grid(rows: int, columns: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates (u, v) of a patch about its centre, each `[rows, columns]`, in patch units.

    u points in the direction that is `angle` radians from increasing columns towards increasing rows.
    """
    y = np.arange(rows)[:, None] - (rows - 1) / 2
    x = np.arange(columns)[None, :] - (columns - 1) / 2
    return x * cos(angle) + y * sin(angle), y * cos(angle) - x * sin(angle)
