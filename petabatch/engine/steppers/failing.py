"""Layers whose update may raise an error in a slice that then fails alone, in place of the whole run."""

from __future__ import annotations

from collections.abc import Callable

from petabatch.errors import PetabatchError
from petabatch.network.plan import Plan
from petabatch.spec.model import is_built_in

Fails = Callable[[PetabatchError, int], None]
"""Takes an error of a slice, and its step."""


def fails_alone(plan: Plan, name: str) -> bool:
    """Return whether a slice fails alone in which the update of a layer raises an error: that of a plug-in.

    On a GPU an update is one call for all slices. Where ranks share a slice, an update must not send messages
    of its own, for which the others would wait: it may where the layer has tiles, or is reset to another one.
    """
    graph = plan.graph
    layer = graph.network.layers[name]
    if not plan.tolerant or graph.network.run.device == "gpu" or is_built_in(type(layer)):
        return False
    split = graph.part.parts * graph.tiling.part.parts > 1
    return not (split and (name in graph.tiling.layers or layer.reset_to is not None))
