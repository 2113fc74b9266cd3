"""Reinitialisation of dead features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from petabatch.random import stream
from petabatch.spec.model import Count, Model, OneOf
from petabatch.spec.weights import Initial
from petabatch.variable import Array


class Revive(Model):
    """Reinitialisation of features that were inactive, in all slices, in `after` consecutive updates.

    A feature is active in an update if any of its units in the pre layer is not zero at the step of the
    update. The new weights depend on the seed, the connection, the number of the update and, if each slice
    has its own weights, the slice, but never on ranks or threads.
    """

    after: Count
    """Number of consecutive updates without activity after which a feature is reinitialised."""
    init: Annotated[Initial, OneOf(Initial)] | None = None
    """Initialiser of the new weights; by default that of the connection."""

    def dead(self, idle: Array, usage: Array, xp: Any) -> Array:
        """Count updates without activity in `idle`, in place; return which features to reinitialise.

        All arrays are `[lanes or 1, 1, 1, features]`; `usage` is how often each feature was active in this
        update. The counts of features to be reinitialised are reset to 0.
        """
        idle[...] = xp.where(usage > 0, 0, idle + 1)
        found = idle >= self.after
        idle[found] = 0
        return found

    def fresh(
        self, init: Initial, shape: Sequence[int], seed: int, name: str, update: int, owner: int, batch: int
    ) -> np.ndarray:
        """Return new weights `[1, 1, features, nyp, nxp, nf_post]`, an array of their own.

        `owner` is their slice among the `batch` of a run, 0 if they are shared.
        """
        initial, rng = self.init or init, stream(seed, f"revive/{name}", update, owner)
        if initial.given and initial.per_slice:
            return np.array(initial.weights((batch, *shape), rng)[owner])
        return np.array(initial.weights(tuple(shape), rng))
