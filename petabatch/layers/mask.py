"""Mask: a layer that passes only part of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Flag, Index
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class Mask(Layer):
    """A = input where the channel `mask` is not zero, else 0; or A = input for the given features, else 0.

    Applied to a residual, it selects the pixels that count. Corresponds to PetaVision's MaskLayer.
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {
        "exc": (0, 1.0),
        "inh": (0, -1.0),
        "mask": (1, 1.0),
    }
    capabilities = Capabilities(graph_safe=True, local=True)
    type: Literal["mask"] = "mask"
    features: tuple[Index, ...] | None = None
    """Indices of the features to pass; by default the channel `mask` decides."""
    invert: Flag = False
    """Invert the mask."""

    @property
    def host_numbers(self) -> bool:
        """Features are named by the host."""
        return self.features is not None

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same on rows of units."""
        features = self.features
        gates = () if features is None else tuple(float(f in features) for f in range(self.shape[2]))
        return CompiledRule("mask", {"slope": -1.0 if self.invert else 1.0}, gates)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Apply the mask to the input."""
        if self.features is not None:
            passes = ctx.xp.isin(ctx.xp.arange(self.shape[2]), ctx.xp.asarray(self.features))
        else:
            passes = drive[1] != 0
        activity[...] = drive[0] * (passes != self.invert)
