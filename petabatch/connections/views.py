"""Connections that use the weights of another connection, in the same direction or transposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from petabatch.geometry import GeometryError
from petabatch.spec.parts import Connection, Layer, Operation, Wiring


class _View(Connection):
    of: str
    """Name of the connection that owns the weights."""

    @property
    def borrows(self) -> str:
        return self.of

    backwards: ClassVar[bool] = False
    """The activity goes through the weights from their post layer to their pre layer."""

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        owners = {name: c.patch_owner for name, c in connections.items() if c.patch_owner is not None}
        owner = owners.get(self.of)
        if owner is None:
            report(
                "of",
                "this is not a connection that owns patches of weights",
                found=self.of,
                choices=sorted(owners),
            )
            return None
        if owner.pre not in layers or owner.post not in layers:
            return None  # reported for the owner
        try:
            link = owner.link(layers)
        except GeometryError:
            return None  # reported for the owner
        link = link.transposed if self.backwards else link
        pre, post = layers[self.pre], layers[self.post]
        if (pre.shape, post.shape) != link.shapes:
            report(
                "",
                f"the layers' shapes do not fit the weights of {self.of}",
                found=f"pre {list(pre.shape)}, post {list(post.shape)}",
                expected=f"pre {list(link.shapes[0])}, post {list(link.shapes[1])}",
            )
            return None
        outside = link.scatter and pre.border != "zero"
        if link.patches.shared:
            link = link.with_margin(outside)
        elif outside and link != link.with_margin(True):
            report(
                "pre", f"{self.of} has no weights for units beyond the edge of {self.pre}", found=pre.border
            )
            return None
        return Wiring(link, self.of)


class Clone(_View):
    """The weights of connection `of`, in the same direction.

    With `error`, the weights also learn from this connection, as in PetaVision's PlasticCloneConn: at each
    update, the products of its pre layer and `error`, and the counts of active units, are added to those of
    connection `of`.
    """

    type: Literal["clone"] = "clone"
    error: str | None = None
    """Layer whose activity is multiplied with that of the pre layer; it must have the shape of the post
    layer."""

    @property
    def operation(self) -> Operation:
        """Forward through the weights."""
        return "forward"

    @property
    def learns_against(self) -> str | None:
        """The layer named by `error`."""
        return self.error

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check the geometry, and that the weights learn if `error` is given."""
        if self.error is not None:
            if self.error not in layers:
                report("error", "there is no layer of this name", found=self.error, choices=sorted(layers))
            elif layers[self.error].shape != layers[self.post].shape:
                report(
                    "error",
                    "this layer does not have the shape of the post layer",
                    found=f"{self.error} {list(layers[self.error].shape)}",
                    expected=f"{self.post} {list(layers[self.post].shape)}",
                )
            owner = connections[self.of].patch_owner if self.of in connections else None
            if owner is not None and owner.learn is None:
                report("error", f"the weights of {self.of} do not learn", expected=f"`learn` in {self.of}")
        return super().wire(layers, connections, report)


class Transpose(_View):
    """The transpose of the weights of connection `of`: from its post side to its pre side."""

    backwards: ClassVar[bool] = True
    type: Literal["transpose"] = "transpose"

    @property
    def operation(self) -> Operation:
        """The other way through the weights."""
        return "transposed"
