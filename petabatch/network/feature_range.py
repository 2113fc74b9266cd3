"""One-to-one connections between all features of a layer and those of a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from petabatch.kernels.array import ArrayKernels
from petabatch.spec.parts import Connection, Layer, Operation, Wiring
from petabatch.variable import Array, Border


class FeatureRange(Connection):
    """What an identity is in the part of one rank: from, or to, the features `first` to `first + count`.

    One of its layers has all features, the other one those of this rank. Into a layer with all features, zero
    is delivered to the others.
    """

    first: int
    count: int
    features: int
    """Of the post layer."""
    variable: str
    """Of the pre layer."""

    @property
    def carries(self) -> str:
        """The variable of the identity."""
        return self.variable

    @property
    def operation(self) -> Operation:
        """A range of features."""
        return "features"

    @property
    def first_feature(self) -> int:
        """The first feature of the range."""
        return self.first

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Return the wiring: the shapes are those of an identity that has been checked."""
        return Wiring()

    def deliver(
        self, kernels: ArrayKernels, wiring: Wiring, activity: Array, border: Border, patches: Array | None
    ) -> Array:
        """Return the activity of the range, or all features with zeros beside it."""
        if self.features == self.count:
            return activity[..., self.first : self.first + self.count]
        found = kernels.xp.zeros((*activity.shape[:-1], self.features), activity.dtype)
        found[..., self.first : self.first + self.count] = activity
        return found
