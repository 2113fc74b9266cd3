"""Early stopping inside compiled steps: the networks whose duality gap a program can evaluate."""

from __future__ import annotations

from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.look import Look
from petabatch.network.graph import Graph
from petabatch.network.until import GAP, certificate
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
    if edge is None or (patches := edge.plain_patches) is None:
        return None
    shapes = {layers[one].shape for one in (lasso.image, lasso.reconstruction, edge.connection.pre)}
    if len(shapes) != 1 or layers[edge.connection.pre].border != "zero":
        return None
    if not abs(edge.factor) == 1 == edge.connection.strength:
        return None
    weights = graph.patches_of(edge.wiring.weights)
    return Look(
        GAP,
        image=Source(f"layers/{lasso.image}/A"),
        reconstruction=Source(f"layers/{lasso.reconstruction}/A"),
        code=Source(f"layers/{lasso.code}/A"),
        coefficient=lasso.coefficient,
        signed=lasso.signed,
        weights=weights,
        patches=patches,
        target=until.gap,
        every=until.interval,
        display=network.run.display,
    )
