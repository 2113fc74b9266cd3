"""Variables of layers as input, such as membrane potentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.errors import nearest
from petabatch.spec.parts import Connection, Layer, Operation, Wiring


class Potential(Connection):
    """A variable of the pre layer in the present step, the membrane potential V or another, times `strength`.

    The two layers must have the same shape. A `linear` layer with this input holds a copy of the variable;
    with an `identity` connection from the same layer, also its spikes. Layers of type `neurons` that have it
    as a current show other functions of it than the activity of the pre layer. Corresponds to what
    PetaVision's CloneVLayer, SigmoidLayer and GapLayer read of their original
    (`CloneInternalStateBuffer.cpp`). The variable after the step is delivered, in the same step: there is no
    `delay_steps` or `feedback`.
    """

    type: Literal["potential"] = "potential"
    variable: str = "V"
    """Name of the variable, as that of an equation."""

    @property
    def operation(self) -> Operation:
        """A copy."""
        return "copy"

    @property
    def carries(self) -> str:
        """The variable."""
        return self.variable

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check that the pre layer has the variable, and the shape of the post layer."""
        pre, post = layers[self.pre], layers[self.post]
        variables = [one.name for one in pre.variables() if one.shape == pre.shape and one.dtype == "float"]
        if self.variable not in variables:
            named = "variable" in self.model_fields_set
            near = nearest(self.variable, variables) if named else next(iter(variables), None)
            report(
                "variable" if named else "pre",
                f"this layer has no {'variable of this name' if named else 'membrane potential'}",
                found=self.variable if named else f"{self.pre} of type {pre.type}",
                expected=", ".join(variables) or "a layer with variables",
                hint=f'variable = "{near}"' if near else 'type = "identity" delivers its activity',
            )
            return None
        if self.delay_steps or self.feedback:
            report(
                "delay_steps" if self.delay_steps else "feedback",
                "a variable is delivered in its own step alone",
                found=f"delay {self.delay_steps}" if self.delay_steps else "of the step before",
                hint=f"a linear layer with the variable of {self.pre}, and a connection from it",
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
