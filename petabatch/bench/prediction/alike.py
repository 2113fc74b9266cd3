"""Numbers of parts of a slice with the same layers and connections replicated on each rank."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from petabatch.errors import Problem
from petabatch.network.features import check_features
from petabatch.network.possible_parts import Axis, numbers, sizes, with_parts
from petabatch.network.shares import split_layers
from petabatch.network.tiles import check_tiles, connections_as_a_whole, layers_as_a_whole
from petabatch.spec.network import Network
from petabatch.spec.parts import Wiring


def alike(network: Network, axis: Axis, wirings: Mapping[str, Wiring]) -> list[list[int]]:
    """Return the numbers of parts of features or rows, in groups that split the same layers.

    And, of rows, the same connections are made by tiles. Numbers and groups are in ascending order.
    """
    found: dict[Hashable, list[int]] = {}
    for parts in numbers(sizes(network, axis).values()):
        problems: list[Problem] = []
        parted = with_parts(network, axis, parts)
        if axis == "features":
            check_features(parted, problems)
            kind: Hashable = split_layers(parted)
        else:
            check_tiles(parted, wirings, problems)
            kind = tuple(frozenset(of(parted, wirings)) for of in (layers_as_a_whole, connections_as_a_whole))
        if not problems:
            found.setdefault(kind, []).append(parts)
    return list(found.values())
