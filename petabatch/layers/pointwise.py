"""Layers without state: constant, or a function of the present input, unit by unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from petabatch.kernels.transfer import TRANSFERS, Polyline, Transfer
from petabatch.layers.thresholded import Thresholded
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, Flag, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import row_function
from petabatch.variable import Array


class Constant(Layer):
    """A = value, constant from step 0 on."""

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["constant"] = "constant"
    value: Finite = 0.0
    """Activity of every unit."""

    @property
    def static(self) -> bool:
        """Always true: the activity is constant."""
        return True

    @property
    def constant(self) -> float:
        """The value."""
        return self.value

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Set the activity at step 0."""
        activity[...] = self.value

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Keep the activity of the previous step."""
        if activity is not previous:
            activity[...] = previous


class Linear(Layer):
    """A = scale * (excitatory input - inhibitory input): error and reconstruction layers.

    Source: PetaVision's `ErrScaleInternalStateBuffer.cpp`.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["linear"] = "linear"
    scale: Finite = 1.0
    """Factor on the summed input."""

    @property
    def linear_gain(self) -> float:
        """The scale."""
        return self.scale

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        return CompiledRule("linear", {"factor": self.scale})

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Scale the input."""
        ctx.xp.multiply(drive[0], self.scale, out=activity)


class Rectified(Thresholded):
    """A = T(excitatory input - inhibitory input), by default the rectifier max(input, 0).

    Corresponds to PetaVision's ANNLayer.
    """

    elsewhere: ClassVar[tuple[str, ...]] = ("relu",)
    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["rectified"] = "rectified"
    threshold: Finite = 0.0
    """Inputs below it give `minimum`."""
    transfer: Transfer = Field(
        "hard", description=f"Transfer function above the threshold, with V the input. {TRANSFERS}"
    )

    @property
    def silent(self) -> bool:
        """If the activity at an input of 0 is."""
        return self.quiet_at(0)

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        curve = self.curve
        return CompiledRule("linear" if isinstance(curve, Polyline) else "transfer", curve=curve)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Apply the transfer function to the input."""
        self.curve.on(drive[0], activity, ctx.xp)


class Sigmoid(Layer):
    """Logistic function A = 1 / (1 + exp(-(input - center) / width)), or its linear approximation.

    Corresponds to PetaVision's SigmoidLayer, which defines the same curve by two potentials.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["sigmoid"] = "sigmoid"
    center: Finite = 0.0
    """Input at which A = 1/2."""
    width: Positive = 1.0
    """Scale of the input; the slope at the centre is 1 / (4 width)."""
    form: Literal["logistic", "line"] = "logistic"
    """`logistic`: the logistic function. `line`: its tangent at the centre, clipped to [0, 1]."""
    invert: Flag = False
    """Return 1 - A instead of A."""

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        slope = np.float32(1) / np.float32(self.width)
        # 1 - A at x is A at -x.
        return CompiledRule(
            self.form, {"centre": self.center, "slope": float(-slope if self.invert else slope)}
        )

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Apply the sigmoid to the input."""
        xp = ctx.xp
        x = (drive[0] - self.center) / self.width
        # Written with tanh, which does not overflow.
        step = 0.5 + 0.5 * xp.tanh(x / 2) if self.form == "logistic" else xp.clip(0.5 + x / 4, 0, 1)
        activity[...] = 1 - step if self.invert else step


class Product(Layer):
    """A = excitatory input * inhibitory input (PetaVision's `PtwiseProductGSynAccumulator`)."""

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (1, 1.0)}
    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["product"] = "product"

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        return CompiledRule("product")

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Multiply the two inputs."""
        ctx.xp.multiply(drive[0], drive[1], out=activity)


class Quotient(Layer):
    """A = excitatory input / inhibitory input (PetaVision's `PtwiseQuotientGSynAccumulator`).

    Division by zero gives an infinity or NaN, which ends the run with an error.
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (1, 1.0)}
    capabilities = Capabilities(graph_safe=True, local=True)
    diverges: ClassVar[str] = "the divisor is the input of channel inh, which must not be 0"
    type: Literal["quotient"] = "quotient"

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        return CompiledRule("quotient")

    def refused(self, drive: Sequence[float | None], dt: float, steps: int) -> str:
        """Refuse a divisor of zero, as where nothing arrives."""
        return "a divisor of 0" if drive[1] == 0 else ""

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Divide the two inputs."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ctx.xp.divide(drive[0], drive[1], out=activity)


class Squared(Layer):
    """A = input^2 (PetaVision's `SquaredGSynAccumulator`)."""

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["squared"] = "squared"

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        return CompiledRule("squared")

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Square the input."""
        ctx.xp.multiply(drive[0], drive[0], out=activity)


class FirmCost(Layer):
    """A = |x| - x^2 / (2 corner) up to |x| = corner, above it corner / 2: the cost of a firm threshold.

    Corresponds to PetaVision's FirmThresholdCostLayer
    (`FirmThresholdCostActivityBuffer.cpp`), with corner = VThresh + VWidth.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["firm_cost"] = "firm_cost"
    corner: Positive
    """Input above which the cost is constant."""

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the row function, which has no memory."""
        return CompiledRule("row", row=row_function(self))

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        """Return the cost of some units."""
        for i in range(A.size):
            x = min(abs(drive[0][i]), p.corner)
            A[i] = x - x * x / (2 * p.corner)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Return the cost of the input."""
        x = ctx.xp.minimum(ctx.xp.abs(drive[0]), self.corner)
        activity[...] = x - x * x / (2 * self.corner)
