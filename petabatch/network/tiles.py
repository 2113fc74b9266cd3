"""Rows over ranks, `[parallel] rows`: the layers that ranks have tiles of, and what becomes of the others.

Each rank of a group has a tile of the rows of layers whose units depend on nothing but their input (`local`),
with borders at the same places of the image. Then tiles meet in what patches reach beyond their borders: rows
of a layer that patches gather from, and sums of patches that reach into the next tile. All other layers are
whole on each rank, and so is what connections make that tiles cannot: for these, rows are gathered, and cut
out, as `shares.py` says of features. `engine/row_split.py` makes the tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from petabatch.errors import Problem
from petabatch.geometry import Axis, Patches
from petabatch.network.possible_parts import by_reason, hint, numbers, sizes, undivided, with_parts
from petabatch.network.shares import POOLS, WHOLE, Part, Share
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer, Wiring
from petabatch.weight_mode import over_positions

_OF_POSITIONS = ("copy", "largest", "background")
"""Operations on the features of each position alone."""
UNDIVIDED = "one of its layers cannot be split into tiles of one height"
"""Why a connection is made as a whole, where that follows from a layer."""


@dataclass(frozen=True)
class Tiling:
    """The layers of which each rank has a tile of rows, and what it does with rows between layers."""

    layers: frozenset[str] = frozenset()
    """All others are whole on each rank."""
    shares: Mapping[str, Share] = field(default_factory=dict)
    """Of each connection; nothing where rows are not split."""
    part: Part = WHOLE
    """The tile of a rank."""

    def by_tiles(self, connection: str) -> bool:
        """Return whether a connection is made by tiles, which exchange what it reaches beyond them."""
        share = self.shares.get(connection)
        return share is not None and share.takes == "own"

    def repeated(self, connection: str) -> bool:
        """Return whether a connection is made as a whole, by each of the ranks that have tiles."""
        share = self.shares.get(connection)
        return share is not None and share.takes == "all"


UNTILED = Tiling()
Way = Literal["own", "all"]


def with_overlap(p: Patches, before: int, after: int) -> Patches:
    """Return the geometry of a tile whose fine layer has rows of the tiles before and after it, too."""
    y = p.y
    return replace(p, y=Axis(y.coarse, before + y.fine + after, y.stride, y.size, lead=before + y.lead))


def of_tile(p: Patches, part: Part) -> Patches:
    """Return the geometry of a tile of a connection without units beyond the edge."""
    return replace(p, y=replace(p.y, coarse=part.size(p.y.coarse), fine=part.size(p.y.fine), margin=0))


def check_tiles(network: Network, wirings: Mapping[str, Wiring], problems: list[Problem]) -> None:
    """Report what prevents the rows of a network from being split over ranks."""
    ranks = network.parallel.rows
    if ranks == 1:
        return
    if obstacle := _obstacle(network, wirings):
        rows = numbers(sizes(network, "rows").values())
        possible = [n for n in rows if not _obstacle(with_parts(network, "rows", n), wirings)]
        message = "no layer has rows that can be split over ranks"
        one = hint("rows", ranks, possible)
        problems.append(Problem("parallel.rows", message, found=obstacle, hint=one))


def _obstacle(network: Network, wirings: Mapping[str, Wiring]) -> str:
    """Return why no layer can be split; nothing if one can."""
    whole = layers_as_a_whole(network, wirings)
    return by_reason(whole) if len(whole) == len(network.layers) else ""


def find_tiling(network: Network, wirings: Mapping[str, Wiring]) -> Tiling:
    """Return the tiling of a whole network; no layers where its rows are not split."""
    if network.parallel.rows == 1:
        return UNTILED
    tiled = network.layers.keys() - layers_as_a_whole(network, wirings).keys()
    together, shares = connections_as_a_whole(network, wirings), {}
    for name, connection in network.connections.items():
        pre, post, link = connection.pre in tiled, connection.post in tiled, wirings[name].link
        # Between whole layers nothing is sent, unless ranks have the weights of their positions alone.
        repeated = name in together or not (pre or post or (link is not None and not link.patches.shared))
        way: Way = "all" if repeated else "own"
        shares[name] = Share(way, way, pre, post)
    return Tiling(frozenset(tiled), shares)


def layers_as_a_whole(network: Network, wirings: Mapping[str, Wiring]) -> dict[str, str]:
    """Return the layers that are whole on each rank, where rows are split, and why."""
    joined = {one.pre for one in network.connections.values() if one.operation == "sparse"}
    around = {network.connections[name].pre: name for name in connections_as_a_whole(network, wirings)}
    found = undivided(network, "rows")
    for name, layer in network.layers.items():
        if not layer.local:
            found[name] = f"units of type {layer.type} depend on more than their own input"
        elif name in found:
            continue
        elif layer.border == "image" and name in around:
            found[name] = f"{around[name]}, which is computed whole, sees the image around it"
        elif name in joined:
            found[name] = "its synapses end in all tiles"
    return found


def connections_as_a_whole(network: Network, wirings: Mapping[str, Wiring]) -> dict[str, str]:
    """Return the connections that each rank makes as a whole, where rows are split, and why."""
    found = {}
    for name, connection in network.connections.items():
        if name in wirings and (reason := _reason(network, connection, wirings[name])):
            found[name] = reason
    for name, owner in (
        (n, c.patch_owner) for n, c in network.connections.items() if c.patch_owner is not None
    ):
        users = [name, *(other for other, c in network.connections.items() if c.borrows == name)]
        if not over_positions(owner.mode) and not found.keys().isdisjoint(users):
            for user in users:
                found.setdefault(user, f"the weights of each position in {name} are whole")
    return found


def _reason(network: Network, connection: Connection, wiring: Wiring) -> str:
    """Return why tiles cannot make what a connection delivers; nothing if they can."""
    pre, post = network.layers[connection.pre], network.layers[connection.post]
    if not (_divides(network, pre) and _divides(network, post)):
        return UNDIVIDED
    if connection.operation in _OF_POSITIONS:
        return ""
    pools, link = connection.operation in POOLS, wiring.link
    if link is None or (not pools and connection.operation not in ("forward", "transposed")):
        return "a unit may see all of a layer"
    p = link.patches
    reaches = bool(p.y.before or p.y.after)
    rows, least = p.y.fine // network.parallel.rows, max(p.y.before, p.y.after, p.y.size // 2 + 1)
    return next(
        (
            reason
            for reason, given in {
                "units beyond the edge, where the border is not zero, have patches": p.y.margin or p.x.margin,
                f"patches of {p.y.size} rows reach beyond the neighbouring tile of {rows}": rows < least,
                "neighbours exchange sums over windows that overlap, not their maxima": (
                    link.scatter and reaches and connection.operation == "pool_max"
                ),
                "its weights differ by position, and those of units of the neighbouring tile are needed": (
                    not pools and not p.shared and not link.scatter and reaches
                ),
            }.items()
            if given
        ),
        "",
    )


def _divides(network: Network, layer: Layer) -> bool:
    return layer.shape[0] % network.parallel.rows == 0
