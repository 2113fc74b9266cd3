"""Early stopping of one slice, once its code is certified to be near the optimum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from petabatch.clock import Clock
from petabatch.network.until import GAP, STEPS, next_look
from petabatch.spec.network import Run, Until
from petabatch.variable import Array


class Stopping(Protocol):
    """What a lane asks of its early stopping."""

    def rests(self, step: int) -> bool:
        """Return whether the slice rests in `step`; in the first of a display it never does."""

    def advanced(self, first: int, last: int, gap: Callable[[], Array] | None) -> None:
        """Count steps first+1 .. last, and measure the gap where that is due; None if it is set already."""


class NeverStop:
    """Every display has its full length."""

    def rests(self, step: int) -> bool:
        """No slice rests."""
        return False

    def advanced(self, first: int, last: int, gap: Callable[[], Array] | None) -> None:
        """Nothing is counted."""


class EarlyStop:
    """Early stopping of one slice; its state is the arrays of `network.until.variables`, each `[1]`."""

    def __init__(self, until: Until, clock: Clock, arrays: Mapping[str, Array]) -> None:
        self.until, self.clock = until, clock
        self.steps, self.gap = arrays[STEPS], arrays[GAP]

    def rests(self, step: int) -> bool:
        """Return whether the slice is stopped in `step`; the first step of a display resets it."""
        if self.clock.begins(step):
            self.steps[...], self.gap[...] = 0, np.inf
        return bool(self.gap[0] <= self.until.gap)

    def advanced(self, first: int, last: int, gap: Callable[[], Array] | None) -> None:
        """Count steps first+1 .. last, and look at the gap where that is due and the stepper has not."""
        self.steps += last - first
        if gap is not None and last == next_look(self.until, self.clock, last - 1):
            self.gap[...] = float(gap().item())


def early_stop(run: Run, arrays: Mapping[str, Array]) -> Stopping:
    """Return the early stopping that a run asks for."""
    return NeverStop() if run.until is None else EarlyStop(run.until, run.clock, arrays)
