"""Adaptive time scales: the time step of a layer grows while the energy decays steadily, in each slice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.kernels.timescale import BASE, KNEE, LOG, Growth, follow
from petabatch.spec.model import NonNegative, Part, Positive
from petabatch.variable import Array, Variable


class TimeScale(Part):
    """Adaptive time scale of a layer. State per slice: the time scale, its ceiling, and the last energy.

    At each step, with E the energy of the previous step (-1 when a new image appears) and E0 the energy
    before that (PetaVision's `AdaptiveTimeScaleController.cpp:60-89`):

    - E = E0: nothing changes;
    - E > E0, or either is not positive: scale = `minimum`, ceiling = `maximum`;
    - else scale = `factor` E0 scale / (E0 - E); if it exceeds the ceiling, it is set to the ceiling, and the
      ceiling grows.
    """

    kind: ClassVar[str] = "time-scale controller"
    type: str
    energy: str
    """Name of the probe that controls the time scale: of an energy, or of a quotient of energies."""
    minimum: Positive = 0.05
    """Time scale after a new image (baseMin)."""
    maximum: Positive = 0.06
    """Ceiling of the time scale after a new image (baseMax)."""
    factor: Positive = 0.03
    """Time scale as a fraction of the time constant with which the energy decays (tauFactor)."""
    growth: NonNegative = 0.025
    """Relative growth of the ceiling each time it is reached (growthFactor)."""

    def variables(self) -> Sequence[Variable]:
        """Declare the state of the controller, one value per slice."""
        return (
            Variable("time_scale", (), (), "factor on dt", dtype="float64", initial=self.minimum),
            Variable("time_scale_max", (), (), "its ceiling", dtype="float64", initial=self.maximum),
            Variable("energy_before", (), (), "energy seen last", dtype="float64", initial=-1.0),
        )

    @property
    @abstractmethod
    def numbers(self) -> Growth:
        """The parameters of `follow`."""

    def control(self, state: Mapping[str, Array], energy: np.ndarray) -> None:
        """Set the time scale of the next step from `energy`, float64 `[lanes]`, in place."""
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
        """The parameters of `follow`."""
        return Growth(BASE, self.minimum, self.maximum, self.factor, self.growth)


class KneeTimeScale(TimeScale):
    """Above `knee`, the ceiling grows more slowly, by the factor `slope`.

    Source: PetaVision's `KneeTimeScaleController.cpp:28-43`.
    """

    type: Literal["knee"] = "knee"
    knee: Positive = 3.4
    """Ceiling above which growth is slower (kneeThresh)."""
    slope: Positive = 0.01
    """Factor on the growth above the knee (kneeSlope)."""

    @property
    def numbers(self) -> Growth:
        """The parameters of `follow`."""
        return Growth(KNEE, self.minimum, self.maximum, self.factor, self.growth, self.knee, self.slope)


class LogTimeScale(TimeScale):
    """Growth decreases exponentially with the ceiling, so that the ceiling grows logarithmically.

    Source: PetaVision's `LogTimeScaleController.cpp:25-59`.
    """

    type: Literal["log"] = "log"
    threshold: Positive = 1.0
    """Ceiling at which growth has decreased by the factor `slope` (logThresh); above `maximum`."""
    slope: Annotated[Positive, Field(le=1)] = 0.01
    """Growth at a ceiling of `threshold`, relative to that at `maximum` (logSlope); at most 1."""

    @model_validator(mode="after")
    def _growth_decreases(self) -> LogTimeScale:
        if self.threshold <= self.maximum:
            raise PydanticCustomError(
                "log_time_scale",
                "the ceiling of this time scale would not be bounded",
                {
                    "got": f"threshold {self.threshold:g}, maximum {self.maximum:g}",
                    "expected": "a threshold above the maximum",
                },
            )
        return self

    @property
    def numbers(self) -> Growth:
        """The parameters of `follow`."""
        span = self.threshold - self.maximum
        return Growth(LOG, self.minimum, self.maximum, self.factor, self.growth, slope=self.slope, span=span)
