"""Dense patches: every pre unit is joined to a patch of post units, the same patch everywhere or its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from petabatch.geometry import GeometryError, Link, make_link, weight_shape
from petabatch.kernels.array import ArrayKernels
from petabatch.learning.revive import Revive
from petabatch.spec.model import Count, NonNegative, OneOf
from petabatch.spec.parts import Connection, Layer, Operation, WeightOwner, Wiring
from petabatch.spec.weights import Initial, Learning, Normalize
from petabatch.variable import Array, Border, Variable


class Conv(Connection):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`: a patch of `nyp x nxp` post units for each pre unit.

    The layers' sizes have a whole ratio: one-to-many (a code to its image), one-to-one, or many-to-one.
    A patch is centred on its unit (see `petabatch.geometry`).
    """

    type: Literal["conv"] = "conv"
    patch: tuple[Count, Count]
    """Patch in post units, `[nyp, nxp]`."""
    mode: Literal["extra_shared", "shared", "non_shared", "extra_non_shared"] = "extra_shared"
    """Two questions: one kernel for all positions (`shared`) or a patch for each pre unit (`non_shared`)?
    One set of weights for each slice, or one for the whole batch (`extra_`)?"""
    init: Annotated[Initial, OneOf(Initial)]
    """How the weights start; the same in every slice."""
    normalize: Annotated[Normalize, OneOf(Normalize)] | None = None
    """What is done to the weights at the start and after each update."""
    learn: Annotated[Learning, OneOf(Learning)] | None = None
    """The learning rule; without it the weights stay."""
    decorrelate: NonNegative = 0.0
    """At each update, before normalising, features i and j are pushed apart:
    W_i -= decorrelate * sum over j of (W_i . W_j) W_j."""
    revive: Revive | None = None
    """`{ after = 50 }`: features that were not active in so many updates start again, as `init` says, or
    with another: `{ after = 50, init = { ... } }`. For shared weights, one-to-many or one-to-one."""

    @property
    def operation(self) -> Operation:
        """Forward through the weights."""
        return "forward"

    @property
    def owner(self) -> WeightOwner:
        """Itself."""
        return self

    def link(self, layers: Mapping[str, Layer]) -> Link:
        """Return the link between the two layers; raises GeometryError when they do not go together."""
        pre, post = layers[self.pre], layers[self.post]
        shared = self.mode in ("extra_shared", "shared")
        link = make_link(pre.shape, post.shape, self.patch, shared, pre.border != "zero")
        if not shared and not link.scatter and pre.border != "zero":
            raise GeometryError(
                "non-shared weights of a many-to-one connection need a pre layer with border zero"
            )
        return link

    def weights(self, layers: Mapping[str, Layer]) -> Variable:
        """Declare the weights."""
        return Variable(
            "weights",
            weight_shape(self.link(layers)),
            ("ky", "kx", "pre_feature", "py", "px", "post_feature"),
            f"weights of mode {self.mode}",
            per="network" if self.mode.startswith("extra_") else "slice",
        )

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check the geometry; the weights are this connection's own."""
        try:
            link = self.link(layers)
        except GeometryError as error:
            pre, post = layers[self.pre].shape, layers[self.post].shape
            report(
                "patch" if "patch" in str(error) else "",
                str(error),
                found=f"pre {list(pre)}, post {list(post)}, patch {list(self.patch)}",
                expected="sizes that are whole multiples of one another, and a patch inside the layer",
            )
            return None
        if self.revive is not None and not (link.scatter and link.patches.shared):
            report(
                "revive",
                "here a feature has more than one patch",
                found=f"mode {self.mode}, pre {list(link.shapes[0])}, post {list(link.shapes[1])}",
                expected="shared weights, and a pre layer not larger than the post layer",
            )
        for key in ("decorrelate", "revive") if self.learn is None else ():
            if getattr(self, key):
                report(key, "these weights do not learn", expected="`learn`")
        owner = next(name for name, connection in connections.items() if connection is self)
        return Wiring(link, owner)

    def deliver(
        self, kernels: ArrayKernels, wiring: Wiring, activity: Array, border: Border, patches: Array | None
    ) -> Array:
        """Scatter or gather the patches."""
        return carry(kernels, wiring, activity, border, patches)


def carry(
    kernels: ArrayKernels, wiring: Wiring, activity: Array, border: Border, patches: Array | None
) -> Array:
    """Return what patches of `wiring.link` deliver, `[lanes, ny, nx, nf]`."""
    link = wiring.link
    assert link is not None
    operator = kernels.synthesize if link.scatter else kernels.project
    return operator(activity, patches, link.patches, border)
