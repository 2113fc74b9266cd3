"""Integer geometry of patches between a coarse and a fine grid; no arrays of the simulation here.

Every weighted connection joins two grids whose sizes have an integer ratio. Seen from either end there is
one picture: unit `j` of the *coarse* grid owns a patch of `size` units of the *fine* grid that starts at

    start(j) = stride * j - (size - stride) // 2

which is the original program's rule (`PatchGeometry.cpp:334-389`) for its one-to-many and one-to-one
connections, and, with size = stride * p, for its many-to-one connections with patch p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petabatch.errors import PetabatchError


class GeometryError(PetabatchError):
    """Two grids and a patch that do not go together; the message says why and what would."""


@dataclass(frozen=True)
class Axis:
    """Patches along one axis."""

    coarse: int
    fine: int
    stride: int
    size: int
    """Patch size in fine units."""
    margin: int = 0
    """Coarse units beyond each end that also own a patch (mirror or value border of the coarse layer)."""

    def start(self, unit: int) -> int:
        """Return the first fine index of the patch of coarse unit `unit`; negative in the margin."""
        return self.stride * unit - (self.size - self.stride) // 2

    @property
    def units(self) -> int:
        """Coarse units including the margin."""
        return self.coarse + 2 * self.margin

    @property
    def before(self) -> int:
        """Fine padding before index 0 so that every patch lies inside the padded grid."""
        return max(0, -self.start(-self.margin))

    @property
    def offset(self) -> int:
        """Index in the padded fine grid at which the first patch starts."""
        return self.start(-self.margin) + self.before

    @property
    def after(self) -> int:
        """Fine padding beyond the last index."""
        return max(0, self.start(self.coarse - 1 + self.margin) + self.size - self.fine)

    @property
    def padded(self) -> int:
        """Length of the padded fine grid."""
        return self.before + self.fine + self.after


@dataclass(frozen=True)
class Patches:
    """Patches of a coarse layer `[ny, nx, nf]` on a fine layer `[NY, NX, channels]`."""

    y: Axis
    x: Axis
    features: int
    """Features of the coarse layer."""
    channels: int
    """Features of the fine layer."""
    shared: bool = True
    """One kernel for all positions (True) or one per position (False: mode `non_shared`)."""

    @property
    def positions(self) -> int:
        """Coarse positions including margins."""
        return self.y.units * self.x.units

    @property
    def groups(self) -> int:
        """Number of distinct kernels over the positions."""
        return 1 if self.shared else self.positions

    @property
    def members(self) -> int:
        """Positions that use one kernel."""
        return self.positions // self.groups

    @property
    def length(self) -> int:
        """Weights in one patch."""
        return self.y.size * self.x.size * self.channels

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one dense pass over all patches of one slice."""
        return self.positions * self.features * self.length


def ratio(pre: int, post: int) -> tuple[str, int]:
    """Return ('one-to-many' | 'one-to-one' | 'many-to-one', factor) for the sizes of one axis.

    Raises GeometryError when neither size is a whole multiple of the other.
    """
    if pre == post:
        return "one-to-one", 1
    if post > pre and post % pre == 0:
        return "one-to-many", post // pre
    if pre > post and pre % post == 0:
        return "many-to-one", pre // post
    raise GeometryError(f"sizes {pre} and {post} are not whole multiples of one another")


def pre_perspective(axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Return (kernel, item) for each index of a fine patch, for a connection whose *pre* layer is fine.

    Such a (many-to-one) connection keeps, as the original does, one patch of p = size/stride post units for
    each pre unit, with `stride` kernels along the axis. Fine index q of a coarse unit's patch holds weight
    `item[q]` of kernel `kernel[q]` (`PatchGeometry.cpp:264-332`).
    """
    low = (axis.size - axis.stride) // 2
    fine = np.arange(axis.size) - low
    post_patch = axis.size // axis.stride
    start = np.floor_divide(2 * fine - axis.stride * (post_patch - 1), 2 * axis.stride)
    return np.mod(fine, axis.stride), -start
