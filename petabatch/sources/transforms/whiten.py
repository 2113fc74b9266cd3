"""Whitening by a fixed filter in the frequency domain."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from petabatch.libm import exp
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.spec.model import Positive


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


@lru_cache(maxsize=16)
def _filter(ny: int, nx: int, cutoff: float) -> np.ndarray:
    f = np.hypot(np.fft.fftfreq(ny)[:, None], np.fft.rfftfreq(nx)[None, :])
    return np.asarray(f * exp(-((f / cutoff) ** 4)))
