"""Pooling and un-pooling: the maximum, sum or average of a patch, feature by feature, without weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from petabatch.geometry import GeometryError, Patches, make_link, ratio
from petabatch.kernels.array import ArrayKernels
from petabatch.spec.model import Count
from petabatch.spec.parts import Connection, Layer, Wiring
from petabatch.variable import Array, Border


class Pool(Connection):
    """Each post unit gets the `max`, `sum` or `average` of pre units around it.

    A larger pre layer is pooled: each post unit sees a window of it, by default the block of its own place,
    2 x 2 for a layer half as large. A smaller one is un-pooled: each of its units is spread over a window.
    Windows are centred on those blocks; where their sizes differ by an odd number, a window reaches one unit
    further at the end. Both layers have the same features. The average divides by the size of the window; in
    un-pooling by how many windows a unit lies in, on average and far from the edge (PoolingConn of the
    original, where a patch of p has a window of p blocks).
    """

    type: Literal["pool"] = "pool"
    window: tuple[Count, Count] | None = None
    """Rows and columns of the larger layer, as `[3, 3]`; by default a block."""
    method: Literal["max", "sum", "average"] = "max"
    """What is made of several pre units."""

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check the geometry."""
        pre, post = layers[self.pre], layers[self.post]
        found = f"pre {list(pre.shape)}, post {list(post.shape)}, window {self.window}"
        if pre.shape[2] != post.shape[2]:
            report(
                "", "pooling keeps features apart", found=found, expected="as many features in both layers"
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
        """Pool or spread."""
        link = wiring.link
        assert link is not None
        # Beyond the edge of a zero border there is nothing, which is not the same as a 0.
        nothing = isinstance(border, str) and border == "zero"
        beyond: Border = float("-inf") if self.method == "max" and nothing else border
        out = (self._spread if link.scatter else self._pooled)(kernels, activity, link.patches, beyond)
        if self.method == "average":
            p = link.patches
            reach = p.y.size * p.x.size
            out = out / (reach / (p.y.stride * p.x.stride) if link.scatter else reach)
        return out

    def _pooled(self, kernels: ArrayKernels, fine: Array, p: Patches, border: Border) -> Array:
        windows = kernels.windows(fine, p, border)
        windows = windows.reshape(len(fine), p.y.units, p.x.units, -1, p.channels)
        return windows.max(axis=3) if self.method == "max" else windows.sum(axis=3)

    def _spread(self, kernels: ArrayKernels, coarse: Array, p: Patches, border: Border) -> Array:
        xp = kernels.xp
        units = kernels.coarse(coarse, p, border).reshape(len(coarse), p.y.units, p.x.units, p.features)
        rows = max(p.y.padded, p.y.offset + p.y.size + p.y.stride * p.y.units)
        cols = max(p.x.padded, p.x.offset + p.x.size + p.x.stride * p.x.units)
        empty = -xp.inf if self.method == "max" else 0.0
        out = xp.full((len(coarse), rows, cols, p.features), empty, coarse.dtype)
        for y in range(p.y.offset, p.y.offset + p.y.size):
            for x in range(p.x.offset, p.x.offset + p.x.size):
                place = out[
                    :,
                    y : y + p.y.stride * p.y.units : p.y.stride,
                    x : x + p.x.stride * p.x.units : p.x.stride,
                ]
                place[...] = xp.maximum(place, units) if self.method == "max" else place + units
        out = out[:, p.y.before : p.y.before + p.y.fine, p.x.before : p.x.before + p.x.fine]
        return xp.where(out == -xp.inf, 0, out) if self.method == "max" else out
