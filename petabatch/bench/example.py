"""The default benchmark: sparse coding of 16 images by 128 random features.

It needs no other file and no optional library.
"""

from __future__ import annotations

import numpy as np

from petabatch.connections import Conv
from petabatch.layers import LCA, Input
from petabatch.network.sparse_coding import sparse_coding
from petabatch.sources import ImageArray
from petabatch.spec.network import Run
from petabatch.weights import L2, Gaussian

_IMAGES = 64


def natural_noise(shape: tuple[int, int, int]) -> np.ndarray:
    """Return random images `[n, ny, nx, nf]` with the 1 / f amplitude spectrum of photographs."""
    ny, nx, nf = shape
    rng = np.random.default_rng(1)
    frequency = np.hypot(np.fft.fftfreq(ny)[:, None], np.fft.rfftfreq(nx)[None, :])
    amplitude = 1 / np.maximum(frequency, 1 / max(ny, nx))
    spectra = np.fft.rfft2(rng.standard_normal((_IMAGES, nf, ny, nx))) * amplitude
    images = np.fft.irfft2(spectra, s=(ny, nx)).transpose(0, 2, 3, 1)
    grey = images.mean(axis=-1, keepdims=True)
    return np.asarray((3 * grey + images).astype(np.float32))


SHAPE = (32, 32, 3)

network = sparse_coding(
    Input(shape=SHAPE, source=ImageArray(data=natural_noise(SHAPE), normalize="standard")),
    LCA(shape=(16, 16, 128), threshold=0.55),
    Conv(pre="V1", post="recon", patch=(8, 8), init=Gaussian(), normalize=L2()),
    title="built-in network",
    run=Run(batch=16, display=400, displays=1),
)
