"""What parts tell the compiled steppers about themselves: a layer its rule, a probe its sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


class NotSuitable(Exception):
    """A part or a network cannot be advanced in some way; the message is the reason, one clause."""


@dataclass(frozen=True)
class CompiledRule:
    """The membrane update of a code layer as compiled code makes it, on rows of units, in float32.

    A subclass does not inherit the rule of its base class, since the `update` that it overrides may differ.
    One to which the rule applies returns `super().compiled_rule()`.
    """

    name: str
    """Of a function in `kernels/cpu/rules.py`."""
    decay: Callable[[float, np.dtype], tuple[float, float]]
    """dt to (e, gain): V = e V + gain drive."""
    threshold: float
    shift: float
    """A = V - shift above the threshold; see `layers/transfer.py`, also for the next four."""
    width: float = 0.0
    minimum: float = 0.0
    maximum: float = np.inf
    signed: bool = False
    self_interaction: float = 0.0
    """Factor on a unit's own activity, or on its sign, in its drive."""
    inertia: float = 0.0
    """Factor on the inertia of the rule: on the last change of the potential, or on the last pull."""
    potential: str = "V"
    """The variable that the rule integrates."""
    previous: str | None = None
    """A further variable of the step before."""
    adaptive: tuple[str, str] | None = None
    """Variables of a slice that the rule itself adapts: its step size and the age of its momentum."""
    tau: float = 1.0
    scale: Any = None
    """Numbers of the time-scale controller (`kernels.timescale.Growth`), None without one."""
    energy: str | None = None
    """The energy probe that the controller follows."""


@dataclass(frozen=True)
class SumWeights:
    """A number of a slice as a weighted sum of what compiled loops sum up in each step."""

    squares: float = 0.0
    """Weight of the sum of error^2."""
    sizes: float = 0.0
    """Weight of the sum of |A|."""
    active: float = 0.0
    """Weight of the number of active units."""

    def __add__(self, other: SumWeights) -> SumWeights:
        """Return the sum of two numbers."""
        return SumWeights(self.squares + other.squares, self.sizes + other.sizes, self.active + other.active)
