"""Patch connections: convolution, transposed convolution, or unshared patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from petabatch import weight_mode
from petabatch.geometry import GeometryError, Link, make_link, weight_shape
from petabatch.learning.revive import Revive
from petabatch.spec.model import Count, NonNegative, OneOf
from petabatch.spec.parts import Connection, Layer, Operation, PatchOwner, Wiring
from petabatch.spec.weights import Initial, Learning, Normalize
from petabatch.variable import Variable
from petabatch.weight_mode import WeightMode, over_positions


class Conv(Connection):
    """Patches of weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`: `nyp x nxp` post units for each pre unit.

    The sizes of the two layers must have an integer ratio: one-to-many (as from a code to its image),
    one-to-one, or many-to-one. Patches are centred on their units (see `petabatch.geometry`).
    """

    type: Literal["conv"] = "conv"
    patch: tuple[Count, Count]
    """Patch size in post units, `[nyp, nxp]`."""
    mode: WeightMode = "extra_shared"
    """Weight sharing. `shared`: one kernel for all positions. `non_shared`: a separate patch for each pre
    unit. Without prefix, each slice has its own weights; with `extra_`, all slices share the same weights."""
    init: Annotated[Initial, OneOf(Initial)]
    """Initialisation of the weights, the same in every slice unless it is `per_slice`."""
    normalize: Annotated[Normalize, OneOf(Normalize)] | None = None
    """Normalisation of the weights, after initialisation and after each update; by default none."""
    learn: Annotated[Learning, OneOf(Learning)] | None = None
    """Learning rule; by default the weights are fixed."""
    decorrelate: NonNegative = 0.0
    """Decorrelation rate: at each update, before normalisation, similar features are pushed apart by
    W_i -= decorrelate * sum over j != i of (W_i . W_j) W_j."""
    revive: Revive | None = None
    """Reinitialisation of dead features: `{ after = 50 }` draws new weights for features that were inactive
    in 50 consecutive updates, from `init` or from an initialiser of their own, `{ after = 50, init = { ... }
    }`. For shared weights of one-to-many or one-to-one connections."""

    @property
    def operation(self) -> Operation:
        """Forward through the weights."""
        return "forward"

    @property
    def owner(self) -> PatchOwner:
        """This connection."""
        return self

    @property
    def as_patches(self) -> PatchOwner:
        """This connection."""
        return self

    @property
    def learns(self) -> bool:
        """Whether the weights are ever updated."""
        return self.learn is not None and self.learn.every.count > 0

    @property
    def plasticity(self) -> None:
        """None: patches learn by updates."""
        return None

    @property
    def learned(self) -> tuple[()]:
        """None: arrays of learning rules are not recorded."""
        return ()

    def link(self, layers: Mapping[str, Layer]) -> Link:
        """Return the link between the two layers; raises GeometryError if their sizes are incompatible."""
        pre, post = layers[self.pre], layers[self.post]
        shared = over_positions(self.mode)
        link = make_link(pre.shape, post.shape, self.patch, shared, pre.border != "zero")
        if not shared and not link.scatter and pre.border != "zero":
            raise GeometryError(
                "non-shared weights of a many-to-one connection need a pre layer with border zero"
            )
        return link

    def weights(self, link: Link) -> Variable:
        """Declare the weights of a link between the two layers, or between parts of them."""
        return Variable(
            "weights",
            weight_shape(link),
            ("ky", "kx", "pre_feature", "py", "px", "post_feature"),
            f"weights of mode {self.mode}",
            per=weight_mode.per(self.mode),
        )

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check the geometry; the connection owns its weights."""
        try:
            link = self.link(layers)
        except GeometryError as error:
            pre, post = layers[self.pre].shape, layers[self.post].shape
            report(
                "patch" if "patch" in str(error) else "",
                str(error),
                found=f"pre {list(pre)}, post {list(post)}, patch {list(self.patch)}",
                expected="sizes that are whole multiples of one another, and a patch that fits on the layer",
            )
            return None
        if self.revive is not None and not (link.scatter and link.patches.shared):
            report(
                "revive",
                "features that have more than one patch cannot be revived",
                found=f"mode {self.mode}, pre {list(link.shapes[0])}, post {list(link.shapes[1])}",
                expected="shared weights, and a pre layer not larger than the post layer",
            )
        for key in ("decorrelate", "revive") if self.learn is None else ():
            if getattr(self, key):
                report(key, "these weights do not learn", expected="a learning rule, `learn`")
        owner = next(name for name, connection in connections.items() if connection is self)
        return Wiring(link, owner)
