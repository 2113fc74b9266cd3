"""Identity connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.spec.parts import Connection, Layer, Operation, Wiring


class Identity(Connection):
    """The activity of the pre layer, times `strength`. The two layers must have the same shape.

    Corresponds to PetaVision's IdentConn and RescaleConn.
    """

    type: Literal["identity"] = "identity"

    @property
    def operation(self) -> Operation:
        """A copy."""
        return "copy"

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check that the shapes are equal."""
        pre, post = layers[self.pre].shape, layers[self.post].shape
        if pre != post:
            report(
                "",
                "the two layers have different shapes",
                found=f"pre {list(pre)}, post {list(post)}",
                expected="equal shapes",
            )
            return None
        return Wiring()
