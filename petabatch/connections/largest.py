"""The largest feature of each position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.kernels.array import ArrayKernels
from petabatch.spec.model import Flag
from petabatch.spec.parts import Connection, Layer, Operation, Wiring
from petabatch.variable import Array, Border


class Largest(Connection):
    """The largest activity among the features of each position, for a post layer of one feature.

    Corresponds to PetaVision's WTAConn (`WTADelivery.cpp`), for any batch and with its delay, and with
    `number` to its WTALayer.
    """

    type: Literal["largest"] = "largest"
    number: Flag = False
    """Deliver which feature it is, from 0, in place of its activity; of equal ones the first."""

    @property
    def operation(self) -> Operation:
        """The largest feature."""
        return "other" if self.number else "largest"

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check that the positions are the same."""
        pre, post = layers[self.pre].shape, layers[self.post].shape
        if (*pre[:2], 1) != post:
            report(
                "",
                "the two layers do not go together",
                found=f"pre {list(pre)}, post {list(post)}",
                expected=f"post {[*pre[:2], 1]}: as many rows and columns, one feature",
            )
            return None
        return Wiring()

    def deliver(
        self, kernels: ArrayKernels, wiring: Wiring, activity: Array, border: Border, patches: Array | None
    ) -> Array:
        """Return the place of the maximum among the features, or the maximum as its operation does."""
        if not self.number:
            return activity.max(axis=3, keepdims=True)
        return activity.argmax(axis=3)[..., None].astype(activity.dtype)
