"""Initialisation with image patches."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Annotated, Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.spec.model import Flag, OneOf
from petabatch.spec.parts import Source
from petabatch.spec.weights import Initial

_TRIES = 100


class ImagePatches(Initial):
    """A random image patch for each pre feature, a common start for dictionary learning.

    Constant patches are rejected and drawn again, up to 100 times.
    """

    type: Literal["patches"] = "patches"
    source: Annotated[Source, OneOf(Source)]
    """Source of the images; they need as many channels as the post layer has features."""
    zero_mean: Flag = True
    """Subtract the mean from each patch."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return a patch for each kernel and pre feature, rejecting constant ones: they have no gradient.

        Raises InputError if 100 patches in a row are constant.
        """
        count, patch = prod(shape[:-3]), (shape[-3], shape[-2], shape[-1])
        read = self.source.open(patch, count, int(rng.integers(2**63)))
        return np.stack([self._patch(read, number) for number in range(count)]).reshape(shape)

    def _patch(self, read: Callable[[int, int], np.ndarray], number: int) -> np.ndarray:
        for item in range(_TRIES):
            patch = read(number, item).astype(float)
            if patch.max() > patch.min():
                return patch - patch.mean() if self.zero_mean else patch
        raise InputError(
            f"{_TRIES} patches in a row of {patch.shape[0]} x {patch.shape[1]} were constant\n"
            f"    expected: images that vary within patches of this size\n    hint:     remove blank images"
        )
