"""Pooling and unpooling: maximum, sum or average over windows, for each feature, without weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.geometry import GeometryError, make_link, ratio
from petabatch.spec.model import Count
from petabatch.spec.parts import Connection, Layer, Operation, Wiring


class Pool(Connection):
    """Maximum, sum or average of the pre units in a window, for each feature.

    If the pre layer is the larger one, it is pooled: each post unit receives a window of it, by default its
    own block, such as 2 x 2 for a post layer half as large. If the pre layer is the smaller one, it is
    unpooled: each of its units is spread over a window. Windows are centred on the blocks; if the sizes of
    window and block differ by an odd number, the window extends one unit further at the end. Both layers must
    have the same number of features. The average divides by the size of the window; in unpooling, by the mean
    number of windows that overlap at a unit far from the edge. Corresponds to PetaVision's PoolingConn, in
    which a patch of size p is a window of p blocks.
    """

    type: Literal["pool"] = "pool"
    window: tuple[Count, Count] | None = None
    """Window size in units of the larger layer, such as `[3, 3]`; by default one block."""
    method: Literal["max", "sum", "average"] = "max"
    """Pooling operation."""

    @property
    def operation(self) -> Operation:
        """Pooling."""
        names: dict[str, Operation] = {"max": "pool_max", "sum": "pool_sum", "average": "pool_average"}
        return names[self.method]

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check the geometry."""
        pre, post = layers[self.pre], layers[self.post]
        found = f"pre {list(pre.shape)}, post {list(post.shape)}, window {self.window}"
        if pre.shape[2] != post.shape[2]:
            report(
                "",
                "the two layers have different numbers of features",
                found=found,
                expected="the same number of features, since pooling does not mix them",
            )
            return None
        try:
            y, x = (ratio(pre.shape[axis], post.shape[axis])[1] for axis in (0, 1))
            window = self.window or (y, x)
            link = make_link(pre.shape, post.shape, window, True, pre.border != "zero", window=True)
            # Layers of the same size are pooled: each post unit sees a window.
            return Wiring(link.transposed.with_margin(False) if pre.shape == post.shape else link)
        except GeometryError as error:
            report("window" if "patch" in str(error) else "", str(error), found=found)
            return None
