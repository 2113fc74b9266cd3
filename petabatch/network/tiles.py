"""Rows over ranks, `[parallel] rows`: tiles of the rows of every layer, and what prevents them.

Each rank of a group has a tile of rows of every layer, with borders at the same places of the image, and all
weights. A layer answers `local` where its units depend on nothing but their input. Then tiles meet in what
patches reach beyond their borders: rows of a layer that patches gather from, and sums of patches that reach
into the next tile. `engine/row_split.py` makes the tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from petabatch.errors import Problem
from petabatch.geometry import Axis, Patches
from petabatch.network.possible_parts import divisors, hint, with_parts
from petabatch.network.shares import POOLS
from petabatch.network.slices import own_values
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Wiring

_OF_POSITIONS = ("copy", "largest", "background")
"""Operations on the features of each position alone."""


def with_overlap(p: Patches, before: int, after: int) -> Patches:
    """Return the geometry of a tile whose fine layer has rows of the tiles before and after it, too."""
    y = Axis(p.y.coarse, before + p.y.fine + after, p.y.stride, p.y.size, lead=before)
    return replace(p, y=y)


def check_tiles(network: Network, wirings: Mapping[str, Wiring], problems: list[Problem]) -> None:
    """Report everything that prevents the rows of a network from being split over ranks."""
    ranks = network.parallel.rows
    if ranks == 1:
        return
    obstacles = list(_obstacles(network, wirings))
    if obstacles:
        rows = divisors(layer.shape[0] for layer in network.layers.values())
        possible = [n for n in rows if not any(_obstacles(with_parts(network, "rows", n), wirings))]
        one = hint("rows", ranks, possible)
        problems += [replace(obstacle, hint=one) for obstacle in obstacles]


def _obstacles(network: Network, wirings: Mapping[str, Wiring]) -> Iterator[Problem]:
    for key, reason in _layers(network):
        yield Problem(key, reason)
    for name, connection in network.connections.items():
        for found in _connection(network, name, connection, wirings):
            yield replace(found, key=f"connections.{name}{found.key}")


def _layers(network: Network) -> Iterator[tuple[str, str]]:
    ranks, own = network.parallel.rows, own_values(network, 0)
    for name, layer in network.layers.items():
        key = f"layers.{name}"
        if layer.shape[0] % ranks:
            yield f"{key}.shape", f"{layer.shape[0]} rows cannot be split into {ranks} tiles of one height"
        if not layer.local:
            yield f"{key}.type", f"units of type {layer.type} depend on more than their own input"
        if layer.border == "image":
            yield f"{key}.border", "a tile has no margin of its image"
        if any(path.startswith(f"{key}.source.") for path in own):
            yield f"{key}.source", "a tile is of the images of one source, the same in all slices"


def _connection(
    network: Network, name: str, connection: Connection, wirings: Mapping[str, Wiring]
) -> Iterator[Problem]:
    """Yield obstacles, with keys of the connection."""
    if connection.operation in _OF_POSITIONS:
        return
    pools = connection.operation in POOLS
    if not pools and connection.operation not in ("forward", "transposed"):
        yield Problem("", "tiles exchange rows for conv, clone, transpose and pool")
        return
    link = wirings[name].link if name in wirings else None
    if link is None:
        return
    owner, p = connection.owner, link.patches
    reaches = bool(p.y.before or p.y.after)
    if pools and link.scatter and reaches and connection.operation == "pool_max":
        yield Problem(".window", "tiles add up what windows share, and do not take the maximum of it")
    if owner is not None and not p.shared and not link.scatter and reaches:
        yield Problem(".mode", "patches have weights of units of the next tile, each with its own")
    if p.y.margin or p.x.margin:
        key = connection.pre if link.scatter else connection.post
        yield Problem("", f"units beyond the edge of {key}, whose border is not zero, have patches")
        return
    rows, least = p.y.fine // network.parallel.rows, max(p.y.before, p.y.after, p.y.size // 2 + 1)
    if (owner is not None or pools) and rows < least:
        fine = connection.post if link.scatter else connection.pre
        yield Problem(
            ".window" if pools else ".patch",
            "a patch is too large for tiles that exchange rows with the next ones alone",
            f"patches of {p.y.size} rows on tiles of {rows} rows of {fine}",
            f"tiles of at least {least} rows",
        )


def exchanged_rows(network: Network, wirings: Mapping[str, Wiring]) -> list[int]:
    """Return the bytes of each message to a neighbour in a step for a slice, at most."""
    known, layers = set[tuple[str, int, int]](), network.layers
    size = np.dtype(network.run.precision).itemsize
    found = []
    for name, connection in network.connections.items():
        link = wirings[name].link
        if link is None:
            continue
        p, fine = link.patches, connection.post if link.scatter else connection.pre
        reach = max(p.y.before, p.y.after)
        # What is gathered from a layer is padded once for connections with the same reach.
        once = (fine, reach, connection.delay)
        if reach and (link.scatter or once not in known):
            columns = p.x.fine if link.scatter else p.x.padded
            found.append(reach * columns * layers[fine].shape[2] * size)
        known |= set() if link.scatter else {once}
    return found
