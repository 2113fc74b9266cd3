"""PetaVision's weights by distance and direction, measured in units of the pre layer."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.libm import arctan2, cos, exp, sin
from petabatch.spec.model import Count, Finite, Index, NonNegative, Positive
from petabatch.spec.weights import Initial


class Directed(Initial):
    """Weights that depend on the place of a post unit as seen from the pre unit, turned by its direction."""

    units: Positive = 1.0
    """Units of the pre layer for one of the post layer, along an axis: below 1 if the post layer is
    larger."""
    directions_pre: Count | None = None
    """Number of directions of the pre features (numOrientationsPre); by default as many as features."""
    directions_post: Count | None = None
    """Number of directions of the post features (numOrientationsPost); by default as many as features."""
    angles: Finite = 1.0
    """Range of the directions, in half turns (thetaMax)."""
    rotate: Finite = 0.0
    """First direction, in half steps between two (rotate)."""
    within: NonNegative = 2 * math.pi
    """Largest difference of two directions, in radians, that are connected (deltaThetaMax)."""

    @property
    def of_patches(self) -> bool:
        """They depend on places in a patch."""
        return True

    @abstractmethod
    def at(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the weights at distances along and across the direction of the post feature."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the weights."""
        _, columns, nf_pre, nyp, nxp, nf_post = shape
        # As in PetaVision, the kernel's column also decides the distance along rows (InitWeights.cpp:258).
        x, y = self._distances(columns, nxp), self._distances(columns, nyp)
        pre = self._directions(self.directions_pre or nf_pre, nf_pre)
        post = self._directions(self.directions_post or nf_post, nf_post)
        theta = np.broadcast_to(post, (nf_pre, nf_post))
        if (self.directions_post or nf_post) == 1 and (self.directions_pre or nf_pre) > 1:
            theta = np.broadcast_to(pre[:, None], theta.shape)
        joined = abs(pre[:, None] - theta) <= self.within
        kernel = [self._patch(y[k], x[k], theta) for k in range(columns)]
        both = np.stack(kernel) * joined[:, None, None, :]
        return np.broadcast_to(both, shape).copy()

    def _distances(self, kernels: int, size: int) -> np.ndarray:
        """Return the distances of post units from the pre unit of each kernel, `[kernels, size]`."""
        k, j = np.arange(kernels)[:, None], np.arange(size)
        if self.units <= 1:
            return np.broadcast_to((j + 0.5 - size / 2) * self.units, (kernels, size))
        k = k % round(self.units)
        start = np.floor((k - self.units / 2 * (size - 1)) / self.units)
        return np.asarray((start + j) * self.units + (self.units - 1) / 2 - k)

    def _directions(self, count: int, features: int) -> np.ndarray:
        step = math.pi * self.angles / count
        return self.rotate * step / 2 + np.arange(features) % count * step

    def _patch(self, y: np.ndarray, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the weights of one kernel, `[nf_pre, nyp, nxp, nf_post]`."""
        dy, dx, angle = y[:, None, None], x[:, None], theta[:, None, None, :]
        return self.at(dx * cos(angle) + dy * sin(angle), -dx * sin(angle) + dy * cos(angle))


class PetaVisionGaussian(Directed):
    """W = strength exp(-d^2 / (2 sigma^2)) where `inner` <= d <= `outer`, else 0.

    d^2 = u^2 + (aspect (v - shift))^2, with u and v the distance from the pre unit along and across the
    direction of the post feature, in units of the pre layer. With two `flanks`, the Gaussian at v + shift is
    added. Source: PetaVision's Gauss2DWeight, `InitGauss2DWeights.cpp`.
    """

    type: Literal["petavision_gaussian"] = "petavision_gaussian"
    sigma: Positive = 0.8
    """Standard deviation along the direction."""
    aspect: Finite = 1.0
    """Ratio of the standard deviation along the direction to that across it."""
    outer: NonNegative = 1.4
    """Distance above which weights are 0 (rMax)."""
    inner: NonNegative = 0.0
    """Distance below which weights are 0 (rMin)."""
    strength: Finite = 1.0
    """Weight at distance 0."""
    flanks: Count = 1
    """Number of Gaussians: 1 or 2 (numFlanks)."""
    shift: Finite = 0.0
    """Distance of the Gaussians from the centre, across the direction (flankShift)."""

    def at(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the sum of the Gaussians."""
        shifts = (self.shift, -self.shift) if self.flanks > 1 else (self.shift,)
        return np.asarray(sum(self._bell(u, v - shift) for shift in shifts))

    def _bell(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        square = u**2 + (self.aspect * v) ** 2
        seen = (square <= self.outer**2) & (square >= self.inner**2)
        return np.where(seen, self.strength * exp(-square / (2 * self.sigma**2)), 0.0)


class PetaVisionSectors(Directed):
    """Weights spread over several connections by the angle from the pre unit to the post unit.

    The turn is divided into as many `sectors`. At the angle sector + f, 0 <= f < 1, in units of sectors, this
    connection has the weight `value` (1 - f), the next one `value` f; at distance 0 each has value / sectors.
    Source: PetaVision's SpreadOverArborsWeight, `InitSpreadOverArborsWeights.cpp`.
    """

    type: Literal["petavision_sectors"] = "petavision_sectors"
    sectors: Count
    """Number of connections that share the weights."""
    sector: Index = 0
    """Number of this connection among them, from 0."""
    value: Finite = 1.0
    """Sum of the weights of all of them at one place."""

    @model_validator(mode="after")
    def _one_of_them(self) -> PetaVisionSectors:
        if self.sector >= self.sectors:
            more = {"got": str(self.sector), "expected": f"0 to {self.sectors - 1}"}
            raise PydanticCustomError("sector", "there is no such sector", more)
        return self

    def at(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the share of this sector."""
        angle = arctan2(v, u) / (2 * math.pi) % 1 * self.sectors
        angle = np.where(angle >= self.sectors, 0, angle)
        number = np.floor(angle)
        own, before = number == self.sector, (number + 1) % self.sectors == self.sector
        share = np.where(own, 1 - (angle - number), np.where(before, angle - number, 0))
        return self.value * np.where(u**2 + v**2 < 1e-4, 1 / self.sectors, share)


class PetaVisionOneToOne(Initial):
    """Weights that spread each pre feature over as many post features as there are `connections`.

    This one has the weight `value` from the middle of a patch to post feature connections * pre + `number`,
    for each pre feature, and 0 elsewhere; with delays, a history of each feature. Source: PetaVision's
    OneToOneWeightsWithDelays, `InitOneToOneWeightsWithDelays.cpp`.
    """

    type: Literal["petavision_one_to_one"] = "petavision_one_to_one"
    connections: Count
    """Number of connections."""
    number: Index = 0
    """Number of this connection among them, from 0."""
    value: Finite = 1.0
    """The weight."""

    @property
    def of_patches(self) -> bool:
        """They depend on places in a patch."""
        return True

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the weights."""
        found = np.zeros(shape)
        _, _, nf_pre, nyp, nxp, nf_post = shape
        for pre in range(nf_pre):
            if (post := self.connections * pre + self.number) < nf_post:
                found[:, :, pre, nyp // 2, nxp // 2, post] = self.value
        return found
