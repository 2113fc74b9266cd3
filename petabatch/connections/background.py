"""Features with a feature of the background before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.spec.model import Count
from petabatch.spec.parts import Connection, Layer, Operation, Wiring


class Background(Connection):
    """The features of each position after one of the background, which is 1 where all of them are 0.

    With `copies`, the background and each feature come that many times in a row: of n features, the post
    layer has copies * (n + 1). Corresponds to PetaVision's BackgroundLayer (`BackgroundActivityBuffer.cpp`).
    """

    type: Literal["background"] = "background"
    copies: Count = 1
    """How often each feature is repeated (repFeatureNum)."""

    @property
    def operation(self) -> Operation:
        """Features and their background."""
        return "background"

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check the shapes."""
        pre, post = layers[self.pre].shape, layers[self.post].shape
        expected = (*pre[:2], self.copies * (pre[2] + 1))
        if post != expected:
            report(
                "",
                "the two layers do not go together",
                found=f"pre {list(pre)}, post {list(post)}, copies {self.copies}",
                expected=f"post {list(expected)}",
            )
            return None
        return Wiring()
