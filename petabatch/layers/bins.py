"""Bins of a number: PetaVision's BinningLayer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Finite, Flag, NonNegative
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Bins(Layer):
    """One feature for each bin of the input's range: 1 in the bin of its value, `outside` in the others.

    All features of a position receive the same number, as by a connection of weights 1 from a layer of one
    feature; it is limited to [low, high], which is divided into as many bins of equal width as there are
    features. With a `width`, feature k is exp(-(x - c)^2 / (2 (width h)^2)), h being the width of a bin and
    c = (k + 1/2) h; c is counted from 0, not from `low`, as in PetaVision. Source: PetaVision's
    `BinningActivityBuffer.cpp`.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["bins"] = "bins"
    low: Finite = 0.0
    """Lower end of the first bin (binMin)."""
    high: Finite = 1.0
    """Upper end of the last bin (binMax)."""
    width: NonNegative = 0.0
    """Standard deviation around the centres of the bins, in widths of a bin (binSigma)."""
    outside: Finite = 0.0
    """Activity of the other bins, without a `width` (0 or -1: zeroNeg)."""
    zero_unknown: Flag = False
    """A limited input of 0 has no bin: all features are `outside` (zeroDCR)."""

    @model_validator(mode="after")
    def _a_range(self) -> Bins:
        if self.low >= self.high:
            more = {"got": f"{self.low:g} to {self.high:g}", "expected": "low below high"}
            raise PydanticCustomError("bins", "this is not a range", more)
        return self

    def compiled_rule(self) -> CompiledRule:
        """Return the same on the features of a position."""
        numbers = {key: getattr(self, key) for key in ("low", "high", "width", "outside")}
        return CompiledRule("bins", {**numbers, "without_zero": float(self.zero_unknown)})

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Find the bin of each number."""
        xp, count = ctx.xp, self.shape[2]
        real = activity.dtype.type
        size = real(self.high - self.low) / real(count)
        x = xp.clip(drive[0], self.low, self.high)
        feature = xp.arange(count)
        if self.width > 0:
            far = (x - (feature + 0.5) * size) / (self.width * size)
            activity[...] = xp.exp(-xp.square(far) / 2)
        else:
            found = xp.minimum(xp.floor((x - self.low) / size), count - 1)
            activity[...] = xp.where(found == feature, 1.0, self.outside)
        if self.zero_unknown:
            activity[x == 0] = self.outside
