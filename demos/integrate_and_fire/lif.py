"""A user-defined layer type: leaky integrate-and-fire neurons, in one small class.

A params file uses it by `plugins = ["lif.py"]` and `type = "lif"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from petabatch.spec.model import NonNegative, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Variable


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
        dims = ("y", "x", "feature")
        return (
            Variable("V", self.shape, dims, "membrane potential"),
            Variable("rest", self.shape, dims, "time left in the refractory period", units="time of run.dt"),
        )

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Any],
        drive: Sequence[Any],
        previous: Any,
        activity: Any,
    ) -> None:
        """One Euler step; every array is [lanes, ny, nx, nf]."""
        potential, rest = state["V"], state["rest"]
        resting = rest > 0
        potential += np.float32(ctx.dt / self.tau) * (drive[0] - potential) * ~resting
        spikes = potential >= self.threshold
        potential[spikes] = 0
        rest -= np.float32(ctx.dt) * resting
        rest[spikes] = self.refractory
        activity[...] = spikes
