"""Write a pair of photographs, one for each eye, to runs/two_eyes.npy: python demos/two_eyes/data.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skimage.data import stereo_motorcycle

SMALLER = 3

left, right, disparity = stereo_motorcycle()
# Both eyes fixate the middle of the scene: what is there has disparity 0.
right = np.roll(right, round(float(np.median(disparity[np.isfinite(disparity) & (disparity > 0)]))), axis=1)


def shrunk(image: np.ndarray) -> np.ndarray:
    """Return the image in grey, averaged over blocks of pixels."""
    grey = image.mean(axis=-1) / 255
    ny, nx = (length // SMALLER for length in grey.shape)
    return grey[: ny * SMALLER, : nx * SMALLER].reshape(ny, SMALLER, nx, SMALLER).mean(axis=(1, 3))


eyes = np.stack([shrunk(left), shrunk(right)], axis=-1)[:, 30:]  # what has been rolled in is cut off
Path("runs").mkdir(exist_ok=True)
np.save("runs/two_eyes.npy", eyes[None].astype(np.float32))
