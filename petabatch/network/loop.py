"""The sparse-coding loop of a graph: image -> error -> code -> reconstruction -> error.

Where nothing else in the network changes with time, GPUs have kernels made for it. Any other network runs
layer by layer there; all give the same trajectory to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.geometry import Patches
from petabatch.kernels.transfer import Polyline
from petabatch.network.graph import Edge, Graph
from petabatch.spec.compiled import CompiledRule, NotSuitable
from petabatch.spec.parts import Layer, Operation


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
    patches: Patches
    """The geometry of W."""
    rule: CompiledRule
    """The membrane update of the code."""

    @property
    def layers(self) -> tuple[str, str, str]:
        """The layers that move in a step, in the order in which they are updated."""
        return self.error, self.code, self.recon


def find_loop(graph: Graph) -> Loop:
    """Return the loop of a network in which nothing else moves.

    Raises NotSuitable with the reason when there is none, or more than that.
    """
    layers = graph.network.layers
    moving = {name: layer for name, layer in layers.items() if not layer.static}
    code, rule = _code(moving)
    for name, layer in moving.items():
        if not layer.steady:
            raise NotSuitable(f"{name}.{'reset' if layer.restarts.count else 'every'} is set")
    films = [
        name for name, layer in layers.items() if layer.images is not None and layer.images.source.resets
    ]
    if rule.adaptive is not None and films:
        raise NotSuitable(f"{code} of type {layers[code].type} is reset where films of {films[0]} begin")
    drive = _only(graph, code, ("transposed",))
    error = drive.connection.pre
    recons = [name for name in moving if name not in (code, error)]
    if error not in moving or len(recons) != 1:
        raise NotSuitable(_beyond(graph, code, error, recons))
    decode = _only(graph, recons[0], ("forward",))
    if decode.connection.pre != code or decode.wiring.weights != drive.wiring.weights:
        raise NotSuitable(f"{recons[0]} is not the reconstruction by the weights that drive {code}")
    _check_ends(graph, code, error, recons[0])
    if any(depth > 1 for depth in graph.depth.values()):
        raise NotSuitable("activities are delayed")
    image = _image(graph, error, recons[0])
    link, owner = decode.wiring.link, drive.wiring.weights
    if (drive.lookback, decode.lookback, drive.factor, decode.factor) != (0, 0, 1, 1):
        raise NotSuitable(f"{drive.name} or {decode.name} has a strength, a delay or a channel of its own")
    if link is None or owner is None or not link.scatter:
        raise NotSuitable(f"{code} has more rows or columns than its image")
    return Loop(image.connection.pre, error, code, recons[0], owner, image.factor, link.patches, rule)


def _code(moving: dict[str, Layer]) -> tuple[str, CompiledRule]:
    """Return the one layer with a compiled rule."""
    rules, reasons = {}, []
    for name, layer in moving.items():
        try:
            rule = layer.compiled_rule()
        except NotSuitable as reason:
            reasons.append(f"{name}: {reason}")
        else:
            if rule.potential and isinstance(rule.curve, Polyline):
                reasons.append(f"{name}: its transfer function has vertices")
            elif rule.potential:
                rules[name] = rule
    if len(rules) > 1:
        raise NotSuitable(f"there is more than one code: {', '.join(rules)}")
    if not rules:
        raise NotSuitable("; ".join(reasons) or "no layer is a sparse code")
    return next(iter(rules.items()))


def _beyond(graph: Graph, code: str, error: str, others: list[str]) -> str:
    """Return what the network has in addition to a loop, or lacks of it."""
    readers = {edge.connection.pre: post for post, edges in graph.edges.items() for edge in edges}
    further = [name for name in others if readers.get(name) != error]
    if further:
        return f"the network has further layers: {', '.join(further)}"
    return f"{code} and {error} are not two of the three layers of a loop"


def _only(graph: Graph, post: str, operations: tuple[Operation, ...]) -> Edge:
    """Return the one connection into a layer, which does one of these operations."""
    edges = graph.edges[post]
    if len(edges) != 1 or edges[0].connection.operation not in operations:
        names = ", ".join(edge.name for edge in edges) or "nothing"
        raise NotSuitable(f"{post} gets its input from {names}, expected one {operations[0]} connection")
    return edges[0]


def _check_ends(graph: Graph, code: str, error: str, recon: str) -> None:
    layers = graph.network.layers
    for name in (code, error, recon):
        if layers[name].border != "zero":
            raise NotSuitable(f"{name}.border is set")
    for name in (error, recon):
        if layers[name].linear_gain != 1:
            raise NotSuitable(f"{name} is not the plain sum of its input")


def _image(graph: Graph, error: str, recon: str) -> Edge:
    """Return the connection that brings the image; the error is image minus last reconstruction."""
    edges = graph.edges[error]
    if len(edges) != 2 or any(edge.connection.operation != "copy" for edge in edges):
        raise NotSuitable(f"{error} is not an image minus {recon}")
    back = [edge for edge in edges if edge.connection.pre == recon]
    image = [edge for edge in edges if edge.connection.pre != recon]
    if len(back) != 1 or (back[0].lookback, back[0].factor) != (1, -1) or image[0].lookback != 0:
        raise NotSuitable(f"{error} is not an image minus {recon} of the step before")
    return image[0]
