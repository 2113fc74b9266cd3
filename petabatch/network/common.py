"""Layers that all slices have in common: held once, `batch = 1`."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.errors import Problem
from petabatch.network.graph import Graph
from petabatch.spec.network import Network
from petabatch.spec.parts import Layer


def check_common(network: Network, problems: list[Problem]) -> None:
    """Check that nothing of a slice, and no time, is in the activity of layers that are held once."""
    for name, layer in network.layers.items():
        if layer.batch is None:
            continue
        for found, expected in _reasons(network, name, layer):
            problems.append(
                Problem(
                    f"layers.{name}.batch",
                    "this layer cannot be held once for all slices",
                    found=found,
                    expected=f"{expected}, or no `batch`",
                )
            )


def _reasons(network: Network, name: str, layer: Layer) -> Iterator[tuple[str, str]]:
    """Yield what makes a layer differ between slices, each with what would not."""
    if not layer.static:
        yield f"type {layer.type}, which is updated in each slice", "a layer of type constant or input"
        return
    if layer.images is not None:
        if layer.images.every.count:
            yield (
                f"every = {layer.images.every}",
                'every = "never", as slices come to displays at other times',
            )
        if not layer.images.source.alike:
            yield "a source that shows slices images of their own", 'slices = "same"'
        if network.evaluate is not None:
            yield "[evaluate], which shows other images", "a run without"
    drawn = [key for key, initial in layer.start.items() if initial.per_slice]
    if drawn:
        yield f"start.{drawn[0]} with per_slice = true", "the same start"
    swept = () if network.sweep is None else tuple(network.sweep.columns)
    own = [
        path for path in (*network.slices, *swept, *network.over_time) if path.startswith(f"layers.{name}.")
    ]
    if own:
        yield f"{own[0]}, which differs", "one value"
    if "run.seed" in swept and (layer.images is not None or layer.start):
        yield "a sweep of run.seed", "one seed"


def check_common_depths(graph: Graph) -> list[Problem]:
    """Check that none of these layers is seen with a delay: before step 0 its activity was 0."""
    return [
        Problem(
            f"layers.{name}.batch",
            "a layer that is held once has no history",
            found=f"connections from {name} that are delayed",
            expected="none, or no `batch`",
        )
        for name, layer in graph.network.layers.items()
        if layer.batch is not None and graph.depth[name] > 1
    ]
