"""Find the sparse-coding loop in a graph: image -> error -> code -> reconstruction -> error.

Where the loop is all that happens in a step, one kernel makes many steps of it in one call. Everything else
runs layer by layer; both give the same trajectory to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from petabatch.connections import Clone, Conv, Identity, Transpose
from petabatch.layers import Constant, Input, Linear
from petabatch.spec.parts import Layer

if TYPE_CHECKING:
    from petabatch.network.graph import Edge, Graph


@dataclass(frozen=True)
class Loop:
    """The names in a loop of error = image_factor * image - recon, drive = W^T error, recon = W A."""

    image: str
    error: str
    code: str
    recon: str
    dictionary: str
    """The connection that owns W."""
    image_factor: float
    shared: bool
    """W is one set of patches for all positions; otherwise each unit has a patch of its own."""


def find_loop(graph: Graph, known: Callable[[Layer], bool] | None = None) -> Loop | None:
    """Return the loop if every other layer of the network is an input or a constant, else None.

    `known` says which layers can be its code; by default those whose rule is compiled.
    """
    if known is None:
        from petabatch.engine.steppers.bind import is_known  # imports the compiler, which takes half a second

        known = is_known
    layers = graph.network.layers
    moving = {name: layer for name, layer in layers.items() if not isinstance(layer, (Input, Constant))}
    if not all(layer.steady for layer in moving.values()):
        return None
    codes = [name for name, layer in moving.items() if known(layer)]
    if len(moving) != 3 or len(codes) != 1 or any(depth > 1 for depth in graph.depth.values()):
        return None
    code = codes[0]
    drive = _only(graph, code, Transpose)
    if drive is None or drive.connection.pre not in moving:
        return None
    error = drive.connection.pre
    (recon,) = (name for name in moving if name not in (code, error))
    decode = _only(graph, recon, Conv) or _only(graph, recon, Clone)
    if decode is None or decode.connection.pre != code or decode.wiring.weights != drive.wiring.weights:
        return None
    image = _image(graph, error, recon)
    ends = [layers[name] for name in (error, recon)]
    plain = all(type(layer) is Linear and layer.scale == 1 and layer.border == "zero" for layer in ends)
    link = decode.wiring.link
    owner = drive.wiring.weights
    if image is None or owner is None or link is None or not plain:
        return None
    if not link.scatter or (drive.lookback, decode.lookback) != (0, 0):
        return None
    if (drive.factor, decode.factor) != (1, 1):
        return None
    return Loop(image.connection.pre, error, code, recon, owner, image.factor, link.patches.shared)


def _only(graph: Graph, post: str, kind: type) -> Edge | None:
    """Return the one connection into a layer, if it is of this type."""
    edges = graph.edges[post]
    return edges[0] if len(edges) == 1 and type(edges[0].connection) is kind else None


def _image(graph: Graph, error: str, recon: str) -> Edge | None:
    """Return the connection that brings the image, if the error is image minus last reconstruction."""
    edges = graph.edges[error]
    if len(edges) != 2 or any(type(edge.connection) is not Identity for edge in edges):
        return None
    back = [edge for edge in edges if edge.connection.pre == recon]
    image = [edge for edge in edges if edge.connection.pre != recon]
    if len(back) != 1 or (back[0].lookback, back[0].factor) != (1, -1) or image[0].lookback != 0:
        return None
    return image[0]
