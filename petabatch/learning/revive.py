"""Features that nothing uses any more start again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from petabatch.random import stream
from petabatch.spec.model import Count, Model, OneOf
from petabatch.spec.weights import Initial
from petabatch.variable import Array


class Revive(Model):
    """A feature that was not active in `after` updates in a row, in no slice, starts again with new weights.

    A feature counts as active in an update when the layer it belongs to is not zero there, at the step of
    the update. New weights depend on the seed, the connection, the number of the update and, where each
    slice has its own weights, on the slice: never on ranks or threads.
    """

    after: Count
    """Updates without activity."""
    init: Annotated[Initial, OneOf(Initial)] | None = None
    """How a feature starts again; by default as the connection's `init` says."""

    def dead(self, idle: Array, usage: Array, xp: Any) -> Array:
        """Count updates without activity in `idle`, in place, and say which features have had enough.

        All are `[lanes or 1, 1, 1, features]`; `usage` says how often each was active in this update. The
        count of those that start again begins anew.
        """
        idle[...] = xp.where(usage > 0, 0, idle + 1)
        found = idle >= self.after
        idle[found] = 0
        return found

    def fresh(
        self, init: Initial, shape: Sequence[int], seed: int, name: str, update: int, owner: int
    ) -> np.ndarray:
        """Draw weights `[1, 1, features, nyp, nxp, nf_post]`; `owner` is their slice, 0 if they serve all."""
        return (self.init or init).weights(tuple(shape), stream(seed, f"revive/{name}", update, owner))
