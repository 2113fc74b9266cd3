"""No normalisation."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.spec.weights import Normalize
from petabatch.variable import Array


class Unchanged(Normalize):
    """The weights stay as they are."""

    type: Literal["none"] = "none"

    def apply(self, weights: Array, xp: Any) -> None:
        """Do nothing."""
