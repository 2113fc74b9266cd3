"""Pooling and unpooling: maximum, sum or average over windows, for each feature, without weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.geometry import GeometryError, Patches, make_link, ratio
from petabatch.kernels.array import ArrayKernels
from petabatch.spec.model import Count
from petabatch.spec.parts import Connection, Layer, Operation, Wiring
from petabatch.variable import Array, Border


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

    def deliver(
        self, kernels: ArrayKernels, wiring: Wiring, activity: Array, border: Border, patches: Array | None
    ) -> Array:
        """Pool or unpool."""
        link = wiring.link
        assert link is not None
        # With border zero there are no units beyond the edge; in a maximum, a 0 would be different.
        no_units = isinstance(border, str) and border == "zero"
        outside: Border = float("-inf") if self.method == "max" and no_units else border
        out = (self._unpooled if link.scatter else self._pooled)(kernels, activity, link.patches, outside)
        if self.method == "average":
            p = link.patches
            window = p.y.size * p.x.size
            out = out / (window / (p.y.stride * p.x.stride) if link.scatter else window)
        return out

    def _pooled(self, kernels: ArrayKernels, fine: Array, p: Patches, border: Border) -> Array:
        windows = kernels.windows(fine, p, border)
        windows = windows.reshape(len(fine), p.y.units, p.x.units, -1, p.channels)
        return windows.max(axis=3) if self.method == "max" else windows.sum(axis=3)

    def _unpooled(self, kernels: ArrayKernels, coarse: Array, p: Patches, border: Border) -> Array:
        xp = kernels.xp
        units = kernels.coarse(coarse, p, border).reshape(len(coarse), p.y.units, p.x.units, p.features)
        rows = max(p.y.padded, p.y.offset + p.y.size + p.y.stride * p.y.units)
        cols = max(p.x.padded, p.x.offset + p.x.size + p.x.stride * p.x.units)
        empty = -xp.inf if self.method == "max" else 0.0
        out = xp.full((len(coarse), rows, cols, p.features), empty, coarse.dtype)
        for y in range(p.y.offset, p.y.offset + p.y.size):
            for x in range(p.x.offset, p.x.offset + p.x.size):
                target = out[
                    :,
                    y : y + p.y.stride * p.y.units : p.y.stride,
                    x : x + p.x.stride * p.x.units : p.x.stride,
                ]
                target[...] = xp.maximum(target, units) if self.method == "max" else target + units
        out = out[:, p.y.before : p.y.before + p.y.fine, p.x.before : p.x.before + p.x.fine]
        return xp.where(out == -xp.inf, 0, out) if self.method == "max" else out
