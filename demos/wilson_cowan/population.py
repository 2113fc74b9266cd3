"""Populations of neurons after Wilson and Cowan: the share of neurons that are active.

Source: Wilson and Cowan 1972, "Excitatory and inhibitory interactions in localized populations of model
neurons", Biophysical Journal 12, 1-24.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from petabatch.spec.model import Finite, NonNegative, Positive
from petabatch.spec.parts import Layer


class Population(Layer):
    """tau A' = -A + (1 - refractory A) S(drive + input), S(x) = 1 / (1 + exp(-slope (x - centre))) - S0.

    S0 makes S(0) = 0. A step is one of Euler's method.
    """

    type: Literal["population"] = "population"
    tau: Positive = 10.0
    """Time constant, in the unit of `run.dt`."""
    slope: Positive = 1.3
    """Largest slope of S, times 4."""
    centre: Finite = 4.0
    """Input at which S is steepest."""
    refractory: NonNegative = 1.0
    """How far neurons that are active cannot be activated."""
    input: Finite = 0.0
    """Input from outside."""

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """One step of some populations; A holds the activity of the step before."""
        rest = 1 / (1 + math.exp(p.slope * p.centre))
        for i in range(A.size):
            x = drive[0][i] + p.input
            s = 1 / (1 + math.exp(-p.slope * (x - p.centre))) - rest
            A[i] += p.dt / p.tau * (-A[i] + (1 - p.refractory * A[i]) * s)
