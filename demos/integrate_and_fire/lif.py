"""A user-defined layer type: leaky integrate-and-fire neurons, in one small class.

A params file uses it by `plugins = ["lif.py"]` and `type = "lif"`. Its update is a row function, which numba
compiles; docs/extending.md has the same for arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from petabatch.spec.model import NonNegative, Positive
from petabatch.spec.parts import Layer
from petabatch.variable import LAYER_DIMS, Variable


class LeakyIntegrateAndFire(Layer):
    """V decays towards its input; above threshold the neuron spikes (A = 1) and V returns to 0."""

    type: Literal["lif"] = "lif"
    tau: Positive = 20.0
    """Membrane time constant, in the unit of `run.dt`."""
    threshold: Positive = 1.0
    """The neuron spikes when the potential reaches this value."""
    refractory: NonNegative = 2.0
    """Time after a spike in which input is ignored."""

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: yes, spikes are rare."""
        return True

    def variables(self) -> Sequence[Variable]:
        """Declare the membrane potential and the remaining refractory time."""
        return (
            Variable("V", self.shape, LAYER_DIMS, "membrane potential"),
            Variable(
                "rest", self.shape, LAYER_DIMS, "time left in the refractory period", units="time of run.dt"
            ),
        )

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """One Euler step of some units."""
        for i in range(A.size):
            v, rest = state.V[i], state.rest[i]
            resting = rest > 0
            if resting:
                rest -= p.dt
            else:
                v += p.dt / p.tau * (drive[0][i] - v)
            spikes = v >= p.threshold and not resting
            A[i] = spikes
            state.V[i] = 0 if spikes else v
            state.rest[i] = p.refractory if spikes else rest
