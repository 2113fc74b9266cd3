"""Portions of whole slices that a rank has: of arithmetic, images, recordings, products and weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from petabatch.network.graph import Graph
from petabatch.network.plan import Plan, multiply_adds


@dataclass(frozen=True)
class Portions:
    """What a rank has of the whole, from 0 to 1; what is whole on each rank counts as such."""

    arithmetic: float
    """Of the dense multiply-adds and the units of a step."""
    images: float
    """Of the rows of input layers, with all their features."""
    recordings: float
    """The same of all layers."""
    products: float
    """Of what weights learn from."""
    weights: float
    """Of the weights that are updated."""


def portions(plan: Plan) -> Portions:
    """Return the portions of a rank by its plan, that of whole slices or of a part of them."""
    part, whole = plan.graph, plan.whole_graph
    return Portions(
        arithmetic=_ratio(_arithmetic(part), _arithmetic(whole)),
        images=_of_rows(part, whole, plan.inputs),
        recordings=_of_rows(part, whole, part.network.layers),
        products=_ratio(_products(part), _products(whole)),
        weights=_ratio(_weights(part), _weights(whole)),
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 1.0


def _arithmetic(graph: Graph) -> int:
    units = sum(math.prod(one.shape) for one in graph.network.layers.values() if not one.static)
    return multiply_adds(graph) + units


def _of_rows(part: Graph, whole: Graph, layers: Iterable[str]) -> float:
    shapes = {name: whole.network.layers[name].shape for name in layers}
    rows = {name: part.network.layers[name].shape[0] for name in shapes}
    own = sum(rows[name] * nx * nf for name, (_, nx, nf) in shapes.items())
    return _ratio(own, sum(map(math.prod, shapes.values())))


def _products(graph: Graph) -> int:
    links = (graph.wirings[name].link for pairs in graph.learning_pairs.values() for name, _ in pairs)
    return sum(link.patches.multiply_adds for link in links if link is not None)


def _weights(graph: Graph) -> int:
    return sum(math.prod(graph.variables[f"connections/{name}/weights"].shape) for name in graph.plastic)
