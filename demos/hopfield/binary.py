"""Binary neurons of an associative memory: each takes the sign of its input, now and then.

Source: Hopfield 1982, "Neural networks and physical systems with emergent collective computational
abilities", PNAS 79, 2554-2558.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from petabatch.spec.model import Fraction
from petabatch.spec.parts import Layer
from petabatch.variable import LAYER_DIMS, Variable


class Binary(Layer):
    """A = sign(input), in a random share of the neurons in each step; after a reset A = sign(cue)."""

    channels = {"exc": (0, 1.0), "inh": (0, -1.0), "cue": (1, 1.0)}  # noqa: RUF012
    draws = {"chance": "uniform"}  # noqa: RUF012
    type: Literal["binary"] = "binary"
    share: Fraction = 0.2
    """Probability with which a neuron looks at its input in a step."""

    def variables(self) -> Sequence[Variable]:
        """Declare whether a neuron is to take over its cue."""
        return (Variable("fresh", self.shape, LAYER_DIMS, "1 until the cue is taken over", initial=1.0),)

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """One step of some neurons; A holds the activity of the step before."""
        for i in range(A.size):
            if state.fresh[i] > 0:
                A[i] = 1 if drive[1][i] > 0 else -1
                state.fresh[i] = 0
            elif draws.chance[i] < p.share and drive[0][i] != 0:
                A[i] = 1 if drive[0][i] > 0 else -1
