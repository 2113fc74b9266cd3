"""One-to-one weights."""

from __future__ import annotations

from typing import Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.spec.weights import Initial


class IdentityWeights(Initial):
    """1 from each pre feature to the post feature of the same number at the centre of the patch, else 0."""

    type: Literal["identity"] = "identity"

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return them; raises InputError for a patch that has no centre."""
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
