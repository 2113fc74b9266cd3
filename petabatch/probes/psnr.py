"""How well a layer reproduces another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from petabatch.spec.parts import Probe
from petabatch.variable import Array


class PSNR(Probe):
    """Peak signal-to-noise ratio, 20 log10(peak / rms error), with the image's own range as the peak."""

    type: Literal["psnr"] = "psnr"
    image: str
    """Layer that is reproduced."""
    reconstruction: str
    """Layer that reproduces it."""

    def layers(self) -> Sequence[str]:
        """Name the two layers."""
        return (self.image, self.reconstruction)

    def quantities(self) -> Mapping[str, str]:
        """Name the ratio, and the part of the image's energy left over."""
        return {
            "psnr": "peak signal-to-noise ratio in dB; the peak is the image's largest minus smallest value",
            "residual": "sum of squares of the difference over that of the image",
        }

    def measure(self, read: Callable[[str, str], Array], xp: Any) -> Mapping[str, Array]:
        """Return both, `[lanes]`."""
        image = read(self.image, "A").reshape(len(read(self.image, "A")), -1).astype(float)
        difference = image - read(self.reconstruction, "A").reshape(image.shape)
        square = xp.square(difference).mean(axis=1)
        peak = image.max(axis=1) - image.min(axis=1)
        tiny = xp.finfo(float).tiny
        return {
            "psnr": 10 * xp.log10(xp.maximum(peak**2, tiny) / xp.maximum(square, tiny)),
            "residual": square / xp.maximum(xp.square(image).mean(axis=1), tiny),
        }
