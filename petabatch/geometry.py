"""Integer geometry of patches between a coarse and a fine grid, without any simulation arrays.

Every weighted connection joins two grids whose sizes have an integer ratio. In either direction, unit `j` of
the *coarse* grid owns a patch of `size` units of the *fine* grid that starts at

    start(j) = stride * j - (size - stride) // 2

This is PetaVision's rule (`PatchGeometry.cpp:334-389`) for one-to-many and one-to-one connections, and, with
size = stride * p, for many-to-one connections with patch size p. Each axis decides for itself: where only the
other one is many-to-one, patches belong to the units of the finer layer, also along a one-to-one axis. Seen
from the coarse layer, those of even size then begin one unit earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from petabatch.errors import PetabatchError


class GeometryError(PetabatchError):
    """Incompatible sizes of two grids and a patch."""


@dataclass(frozen=True)
class Axis:
    """Patches along one axis."""

    coarse: int
    fine: int
    stride: int
    size: int
    """Patch size in fine units."""
    margin: int = 0
    """Number of coarse units beyond each end that own a patch (mirror or constant border of the coarse
    layer)."""
    lead: int = 0
    """Fine units by which all patches begin later, such as those in front of the first coarse unit's."""

    def start(self, unit: int) -> int:
        """Return the first fine index of the patch of coarse unit `unit`; negative in the margin."""
        return self.lead + self.stride * unit - (self.size - self.stride) // 2

    @cached_property
    def units(self) -> int:
        """Coarse units including the margin."""
        return self.coarse + 2 * self.margin

    @cached_property
    def before(self) -> int:
        """Fine padding before index 0 so that every patch lies inside the padded grid."""
        return max(0, -self.start(-self.margin))

    @cached_property
    def offset(self) -> int:
        """Index in the padded fine grid at which the first patch starts."""
        return self.start(-self.margin) + self.before

    @cached_property
    def after(self) -> int:
        """Fine padding beyond the last index."""
        return max(0, self.start(self.coarse - 1 + self.margin) + self.size - self.fine)

    @cached_property
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

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Cached, because threads look up their scratch space by it in every step.
        return hash((self.y, self.x, self.features, self.channels, self.shared))

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

    As in PetaVision, such a (many-to-one) connection stores one patch of p = size / stride post units for
    each pre unit, with `stride` kernels along the axis. Fine index q of a coarse unit's patch holds weight
    `item[q]` of kernel `kernel[q]` (`PatchGeometry.cpp:264-332`).
    """
    low = (axis.size - axis.stride) // 2
    fine = np.arange(axis.size) - low
    post_patch = axis.size // axis.stride
    start = np.floor_divide(2 * fine - axis.stride * (post_patch - 1), 2 * axis.stride)
    return np.mod(fine, axis.stride), -start


@dataclass(frozen=True)
class Link:
    """How a weighted connection joins two layers: which end is coarse, and the patches between them."""

    patches: Patches
    scatter: bool
    """True: the pre layer is the coarse one and scatters patches (one-to-many, one-to-one);
    False: the post layer is the coarse one and gathers them (many-to-one)."""

    @property
    def transposed(self) -> Link:
        """The same weights in the reverse direction."""
        return Link(self.patches, not self.scatter)

    @property
    def shapes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """The shapes (pre, post) this link joins."""
        p = self.patches
        coarse, fine = (p.y.coarse, p.x.coarse, p.features), (p.y.fine, p.x.fine, p.channels)
        return (coarse, fine) if self.scatter else (fine, coarse)

    def with_features(self, pre: int, post: int) -> Link:
        """Return the same link between layers with other numbers of features."""
        features, channels = (pre, post) if self.scatter else (post, pre)
        return Link(replace(self.patches, features=features, channels=channels), self.scatter)

    def with_margin(self, wanted: bool) -> Link:
        """Return the same link with or without the patches of units beyond the edge of the coarse layer."""
        y, x = (
            replace(a, margin=_needed_margin(a) if wanted else 0) for a in (self.patches.y, self.patches.x)
        )
        return Link(replace(self.patches, y=y, x=x), self.scatter)


def make_link(
    pre: tuple[int, int, int],
    post: tuple[int, int, int],
    patch: tuple[int, int],
    shared: bool,
    margin: bool = False,
    window: bool = False,
) -> Link:
    """Return the link of a connection with `patch` = (nyp, nxp) post units for each pre unit.

    `margin` includes the units beyond the edge of a coarse pre layer whose border is not zero. With `window`,
    the patch size is in units of the finer layer, in either direction.
    Raises GeometryError if the sizes of the layers and the patch are incompatible.
    """
    directions, axes = [], []
    for name, n_pre, n_post, size in (
        ("rows", pre[0], post[0], patch[0]),
        ("columns", pre[1], post[1], patch[1]),
    ):
        direction, factor = ratio(n_pre, n_post)
        directions.append(direction)
        coarse, fine = min(n_pre, n_post), max(n_pre, n_post)
        width = size * factor if direction == "many-to-one" and not window else size
        if width >= 2 * fine:  # weights at the ends of a larger one reach no unit
            raise GeometryError(f"a patch of {width} {name} does not fit on a layer of {fine} {name}")
        axis = Axis(coarse, fine, factor, width)
        axes.append(axis)
    if "many-to-one" in directions and "one-to-many" in directions:
        raise GeometryError(
            "the pre layer is larger than the post layer along one axis, smaller along the other"
        )
    scatter = "many-to-one" not in directions
    if not scatter and not window:
        axes = [replace(a, lead=-1) if a.stride == 1 and a.size % 2 == 0 else a for a in axes]
    coarse_features, fine_features = (pre[2], post[2]) if scatter else (post[2], pre[2])
    link = Link(Patches(axes[0], axes[1], coarse_features, fine_features, shared), scatter)
    return link.with_margin(scatter and margin)


def _needed_margin(axis: Axis) -> int:
    """Return how many units beyond the edge own a patch that still touches the fine grid."""
    margin = 0
    while axis.start(-margin - 1) + axis.size > 0 or axis.start(axis.coarse + margin) < axis.fine:
        margin += 1
    return margin


def weight_shape(link: Link) -> tuple[int, ...]:
    """Return `[ky, kx, nf_pre, nyp, nxp, nf_post]`, the shape of the weights of one slice.

    `ky, kx` are the numbers of kernels along each axis: 1 for shared weights, the stride for shared weights
    of a many-to-one connection (PetaVision's `Weights.cpp:205-231`), the number of pre units for non-shared
    weights.
    """
    p = link.patches
    if link.scatter:
        kernels = (1, 1) if p.shared else (p.y.units, p.x.units)
        return (*kernels, p.features, p.y.size, p.x.size, p.channels)
    kernels = (p.y.stride, p.x.stride) if p.shared else (p.y.fine, p.x.fine)
    return (*kernels, p.channels, p.y.size // p.y.stride, p.x.size // p.x.stride, p.features)
