"""Early stopping inside compiled steps: the networks whose duality gap a program can evaluate."""

from __future__ import annotations

from petabatch.network.graph import Edge, Graph
from petabatch.network.operations.look import Look
from petabatch.network.until import NAME, certificate
from petabatch.spec.compiled import NotSuitable


def find_look(graph: Graph) -> Look | None:
    """Return the evaluation of the gap that `run.until` asks for; None where the probe must measure it.

    The drive must be a plain product with patches of a layer without a border, in the shape of the image.
    """
    network, layers = graph.network, graph.network.layers
    until, name = network.run.until, certificate(network)
    if until is None or name is None:
        return None
    try:
        lasso = network.probes[name].lasso()
    except NotSuitable:
        return None
    edge = next((e for e in graph.edges.get(lasso.code, ()) if e.name == lasso.drive), None)
    if edge is None or not _plain(graph, edge):
        return None
    shapes = {layers[one].shape for one in (lasso.image, lasso.reconstruction, edge.connection.pre)}
    link = edge.wiring.link
    if link is None or len(shapes) != 1:
        return None
    weights = f"connections/{edge.wiring.weights}/patches"
    if weights not in graph.variables:
        weights = f"connections/{edge.wiring.weights}/weights"
    run = network.run
    return Look(f"{NAME}/gap", lasso, weights, link.patches, until.gap, until.every, run.display)


def _plain(graph: Graph, edge: Edge) -> bool:
    link, connection = edge.wiring.link, edge.connection
    if link is None or link.scatter or connection.operation not in ("forward", "transposed"):
        return False
    margin = link.patches.y.margin or link.patches.x.margin
    border = graph.network.layers[connection.pre].border
    return not margin and border == "zero" and abs(edge.factor) == 1 == connection.strength
