"""Sizes of the images of input layers, and the memory that reading them takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from petabatch.engine.prefetch import THREADS, depth
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.shares import WHOLE, Part
from petabatch.network.slices import values_of_images
from petabatch.spec.network import Network
from petabatch.spec.parts import ImageLayer


def slices_alike(network: Network, layer: str) -> dict[tuple[float, ...], Sequence[int]]:
    """Return the combinations of values that the images of slices depend on, each with its slices."""
    if not values_of_images(network, layer, 0):
        return {(): range(network.batch)}
    found: dict[tuple[float, ...], list[int]] = {}
    for number in range(network.batch):
        found.setdefault(values_of_images(network, layer, number), []).append(number)
    return dict(found)


def nbytes_of_source(graph: Graph, name: str) -> int:
    """Return the bytes that reading images for an input layer keeps in memory, at most."""
    layer = graph.network.layers[name].images
    assert layer is not None
    (ny, nx, nf), parts, source = layer.shape, tile_of(graph, name).parts, layer.source
    whole = ny * parts, nx, nf
    kept = source.nbytes(whole) * len(slices_alike(graph.network, name))
    return kept + (source.nbytes_of_rows(whole) if parts > 1 else 0)


def nbytes_while_read(plan: Plan, slices: int) -> int:
    """Return the bytes that images take while they are read, at most: their pixels are float64 till then."""
    ahead = queues(plan, slices)
    return sum(
        2
        * min(THREADS, ahead[name][0] * slices if name in ahead else slices)
        * nbytes_of_image(shape_of(plan.graph, layer, name))
        for name, layer in plan.inputs.items()
    )


def margin_of(graph: Graph, layer: ImageLayer, name: str) -> tuple[int, int]:
    """Return how many rows and columns beyond each edge an input layer reads."""
    return graph.margins(name) if layer.border == "image" else (0, 0)


def shape_of(graph: Graph, layer: ImageLayer, name: str) -> tuple[int, int, int]:
    """Return the shape of the images that an input layer reads, with their margin."""
    (y, x), (ny, nx, nf) = margin_of(graph, layer, name), layer.shape
    return ny + 2 * y, nx + 2 * x, nf


def tile_of(graph: Graph, name: str) -> Part:
    """Return the part of the rows of an input layer that a rank has."""
    return graph.tiling.part if name in graph.tiling.layers else WHOLE


def whole_shape_of(graph: Graph, layer: ImageLayer, name: str) -> tuple[int, int, int]:
    """Return the shape of the images that all ranks together read for an input layer, with their margin."""
    ny, nx, nf = shape_of(graph, layer, name)
    return ny + (tile_of(graph, name).parts - 1) * layer.shape[0], nx, nf


def nbytes_of_image(shape: tuple[int, int, int]) -> int:
    """Return the bytes of an image of this shape."""
    return math.prod(shape) * np.dtype(np.float32).itemsize


def queues(plan: Plan, slices: int) -> dict[str, tuple[int, int]]:
    """Return the displays of each slice that are read ahead, and their bytes, of each input layer."""
    ahead = {
        name: nbytes_of_image(shape_of(plan.graph, layer, name))
        for name, layer in plan.inputs.items()
        if layer.source.read_ahead
    }
    return {
        name: (depth(slices, nbytes), depth(slices, nbytes) * slices * nbytes)
        for name, nbytes in ahead.items()
    }
