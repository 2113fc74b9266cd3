"""The whole state of a simulator, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from petabatch.engine.images import Instead
from petabatch.sizes import size_text


@dataclass(frozen=True, eq=False)
class Saved:
    """The state of the slices of a rank after a step, from which a simulator goes on."""

    step: int
    arrays: Mapping[str, np.ndarray]
    """Every array of the state by its key."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of the network that were changed, or lists of one for each slice, by key path."""
    shown: Mapping[str, Instead] = field(default_factory=dict)
    """Images that were shown instead of those of a source, by layer."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """What was changed by hand, and after which step for the first time."""

    def __repr__(self) -> str:
        changed = f", changed by hand: {', '.join(self.changes)}" if self.changes else ""
        nbytes = sum(array.nbytes for array in self.arrays.values())
        return f"<state after step {self.step}, {size_text(nbytes)}{changed}>"
