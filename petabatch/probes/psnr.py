"""Peak signal-to-noise ratio of a reconstruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from petabatch.libm import log10
from petabatch.spec.parts import Probe
from petabatch.variable import Array


class PSNR(Probe):
    """Peak signal-to-noise ratio 20 log10(peak / rms error) in dB; the peak is the range of the image."""

    type: Literal["psnr"] = "psnr"
    image: str
    """Name of the layer that holds the image."""
    reconstruction: str
    """Name of the layer that holds the reconstruction."""

    @property
    def slicewise(self) -> bool:
        """Each slice is measured apart."""
        return True

    def layers(self) -> Sequence[str]:
        """Return the names of the two layers."""
        return (self.image, self.reconstruction)

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the ratio and of the relative residual."""
        return {
            "psnr": "peak signal-to-noise ratio in dB; the peak is the range of the image",
            "residual": "sum of squares of the residual divided by that of the image",
        }

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Mapping[str, Array]:
        """Return both, `[lanes]`."""
        image = read(self.image, "A").reshape(len(read(self.image, "A")), -1).astype(float)
        difference = image - read(self.reconstruction, "A").reshape(image.shape)
        square = xp.square(difference).mean(axis=1)
        peak = image.max(axis=1) - image.min(axis=1)
        tiny = xp.finfo(float).tiny
        ratio = xp.maximum(xp.maximum(peak**2, tiny) / xp.maximum(square, tiny), tiny)
        return {
            "psnr": 10 * (log10(ratio) if xp is np else xp.log10(ratio)),
            "residual": square / xp.maximum(xp.square(image).mean(axis=1), tiny),
        }
