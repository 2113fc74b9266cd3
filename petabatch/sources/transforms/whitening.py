"""Whitening: by a fixed filter in the frequency domain, or by a matrix fitted to the images (ZCA)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.libm import exp
from petabatch.sources.memory import Data
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.picture import Shape
from petabatch.spec.model import Count, Positive

_TOGETHER = 256
"""Images whose products are summed in one call."""
_LARGEST = 8192
"""Largest number of pixels and channels; the matrix then takes 512 MiB."""


class Whiten(Transform):
    """The filter f exp(-(f / cutoff)^4), which flattens the spectrum of natural images up to the cutoff.

    Each channel is filtered on its own, and has zero mean; edges wrap around. A crop that follows is of the
    filtered image. Source: Olshausen and Field, Vision Research 37 (1997).
    """

    costly: ClassVar[bool] = True
    type: Literal["whiten"] = "whiten"
    cutoff: Positive = 0.4
    """Frequency in cycles per pixel above which the filter removes noise."""

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the filtered pixels."""
        ny, nx, _ = pixels.shape
        spectrum = np.fft.rfft2(pixels, axes=(0, 1)) * _filter(ny, nx, self.cutoff)[:, :, None]
        return np.fft.irfft2(spectrum, (ny, nx), axes=(0, 1))


class ZCA(Transform):
    """E (D + epsilon)^(-1/2) E^T (I - mean), where E D E^T is the covariance of images.

    It is fitted before the run to images of the source, as the transforms before this one leave them. The run
    keeps it, for resuming and for encoding. Source: Bell and Sejnowski, Vision Research 37 (1997).
    """

    costly: ClassVar[bool] = True
    type: Literal["zca"] = "zca"
    epsilon: Positive = 0.1
    """Added to the variance along each component, which limits by how much noise is amplified."""
    samples: Count = 10_000
    """Number of images that it is fitted to, spread evenly over those of the source."""
    mean: Data | None = None
    """Mean of these images, float64; set when it is fitted."""
    matrix: Data | None = None
    """The matrix, float64; set when it is fitted."""

    @property
    def unfitted(self) -> bool:
        """Whether the matrix is missing."""
        return self.matrix is None or self.mean is None

    def result(self, shape: Shape, layer: Shape) -> Shape:
        """Return the shape; raises InputError where the matrix would be too large, or is another one."""
        count = int(np.prod(shape))
        if count > _LARGEST:
            raise InputError(
                f"the images are too large for ZCA\n    found:    {count:,} pixels and channels\n"
                f"    expected: at most {_LARGEST:,}\n"
                f'    hint:     crop before it, or whiten by {{ type = "whiten" }}, which needs no matrix'
            )
        if self.matrix is not None and self.matrix.array.shape != (count, count):
            raise InputError(
                f"the matrix of ZCA is fitted to images of another shape\n"
                f"    found:    {list(self.matrix.array.shape)}\n    expected: {[count, count]}"
            )
        return shape

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the whitened pixels."""
        assert self.matrix is not None
        assert self.mean is not None
        # Not by BLAS, whose bits may depend on the number of threads.
        white = np.einsum("ij,j->i", self.matrix.array, pixels.ravel() - self.mean.array)
        return np.asarray(white.reshape(pixels.shape))

    def fitted(self, read: Callable[[int, int], np.ndarray]) -> ZCA:
        """Return the transform with mean and matrix."""
        total, products = np.zeros(()), np.zeros(())
        for first in range(0, self.samples, _TOGETHER):
            numbers = range(first, min(first + _TOGETHER, self.samples))
            images = np.stack([read(number, self.samples).ravel() for number in numbers])
            total = total + images.sum(axis=0)
            products = products + images.T @ images
        mean = total / self.samples
        covariance = products / self.samples - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        scale = 1 / np.sqrt(np.maximum(values, 0) + self.epsilon)
        matrix = np.ascontiguousarray((vectors * scale) @ vectors.T)
        return type(self)(epsilon=self.epsilon, samples=self.samples, mean=mean, matrix=matrix)

    def nbytes(self, layer: Shape) -> int:
        """Return the bytes of the matrix, and of what fitting it to images of the layer's size needs."""
        return (1 if self.matrix is not None else 4) * 8 * int(np.prod(layer)) ** 2


@lru_cache(maxsize=16)
def _filter(ny: int, nx: int, cutoff: float) -> np.ndarray:
    f = np.hypot(np.fft.fftfreq(ny)[:, None], np.fft.rfftfreq(nx)[None, :])
    return np.asarray(f * exp(-((f / cutoff) ** 4)))
