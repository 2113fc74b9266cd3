"""Adaptive time scales: a layer's step grows while the energy falls steadily, slice by slice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from petabatch.kernels.timescale import BASE, KNEE, LOG, Growth, follow
from petabatch.spec.model import Part, Positive
from petabatch.variable import Array, Variable


class TimeScale(Part):
    """State per slice: the time scale, its ceiling, and the energy seen last.

    At each step, with E the energy of the step before (-1 when a new image appears) and E0 the one seen
    before that (`AdaptiveTimeScaleController.cpp:60-89` of the original):

    - E = E0: nothing changes;
    - E > E0, or either is not positive: scale = `minimum`, ceiling = `maximum`;
    - else scale = `factor` E0 scale / (E0 - E); above the ceiling it is cut there, and the ceiling grows.
    """

    kind: ClassVar[str] = "time-scale controller"
    type: str
    energy: str
    """Name of the energy probe it follows."""
    minimum: Positive = 0.05
    """The scale after a new image (baseMin)."""
    maximum: Positive = 0.06
    """The ceiling after a new image (baseMax)."""
    factor: Positive = 0.03
    """Fraction of the time constant of the energy's decay (tauFactor)."""
    growth: Positive = 0.025
    """Fraction by which the ceiling grows each time it is reached (growthFactor)."""

    def variables(self) -> Sequence[Variable]:
        """Declare the controller's state, one number for each slice."""
        return (
            Variable("time_scale", (), (), "factor on dt", dtype="float64", initial=self.minimum),
            Variable("time_scale_max", (), (), "its ceiling", dtype="float64", initial=self.maximum),
            Variable("energy_before", (), (), "energy seen last", dtype="float64", initial=-1.0),
        )

    @property
    @abstractmethod
    def numbers(self) -> Growth:
        """The numbers `follow` needs."""

    def control(self, state: Mapping[str, Array], energy: np.ndarray) -> None:
        """Set the time scale of the coming step from `energy`, float64 `[lanes]`, in place."""
        for lane, seen in enumerate(energy):
            scale, ceiling, before = (
                float(state[name][lane]) for name in ("time_scale", "time_scale_max", "energy_before")
            )
            state["time_scale"][lane], state["time_scale_max"][lane] = follow(
                self.numbers, scale, ceiling, before, float(seen)
            )
            state["energy_before"][lane] = seen


class BaseTimeScale(TimeScale):
    """The ceiling grows without bound."""

    type: Literal["base"] = "base"

    @property
    def numbers(self) -> Growth:
        """The numbers `follow` needs."""
        return Growth(BASE, self.minimum, self.maximum, self.factor, self.growth)


class KneeTimeScale(TimeScale):
    """Above `knee` the ceiling grows `slope` times as fast (`KneeTimeScaleController.cpp:28-43`)."""

    type: Literal["knee"] = "knee"
    knee: Positive = 3.4
    """Ceiling above which growth is slow (kneeThresh)."""
    slope: Positive = 0.01
    """How much slower it is there (kneeSlope)."""

    @property
    def numbers(self) -> Growth:
        """The numbers `follow` needs."""
        return Growth(KNEE, self.minimum, self.maximum, self.factor, self.growth, self.knee, self.slope)


class LogTimeScale(TimeScale):
    """Growth slows down exponentially with the ceiling (`LogTimeScaleController.cpp:25-59`)."""

    type: Literal["log"] = "log"
    threshold: Positive = 1.0
    """Ceiling at which growth is `slope` times that at `maximum` (logThresh)."""
    slope: Positive = 0.01
    """(logSlope)"""

    @property
    def numbers(self) -> Growth:
        """The numbers `follow` needs."""
        span = self.threshold - self.maximum
        return Growth(LOG, self.minimum, self.maximum, self.factor, self.growth, slope=self.slope, span=span)
