"""Membrane potentials as input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.spec.parts import Connection, Layer, Operation, Wiring


class Potential(Connection):
    """The membrane potential V of the pre layer in the present step, times `strength`.

    The two layers must have the same shape. A `linear` layer with this input holds a copy of the potential;
    with an `identity` connection from the same layer, also its spikes. Corresponds to what PetaVision's
    CloneVLayer, SigmoidLayer and GapLayer read of their original (`CloneInternalStateBuffer.cpp`). V after
    the step is delivered, in the same step: there is no `delay_steps` or `feedback`.
    """

    type: Literal["potential"] = "potential"

    @property
    def operation(self) -> Operation:
        """A copy."""
        return "copy"

    @property
    def carries(self) -> str:
        """The membrane potential."""
        return "V"

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check that the pre layer has a potential, of the shape of the post layer, and is updated before."""
        pre, post = layers[self.pre], layers[self.post]
        variables = [variable.name for variable in pre.variables()]
        if "V" not in variables:
            report(
                "pre",
                "this layer has no membrane potential",
                found=f"{self.pre} of type {pre.type}",
                expected="a layer with the variable V",
                hint='type = "identity" delivers its activity',
            )
            return None
        if self.delay_steps or self.feedback or pre.later:
            report(
                "delay_steps" if self.delay_steps else "feedback",
                "a membrane potential is delivered in its own step alone",
                found=f"delay {self.delay_steps}" if self.delay_steps else "of the step before",
                hint=f"a linear layer with the potential of {self.pre}, and a connection from it",
            )
            return None
        if pre.shape != post.shape:
            report(
                "",
                "the two layers have different shapes",
                found=f"pre {list(pre.shape)}, post {list(post.shape)}",
                expected="equal shapes",
            )
            return None
        return Wiring()
