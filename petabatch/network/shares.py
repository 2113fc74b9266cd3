"""Features at both ends of connections, where ranks have parts of them: what each takes of one, and gives.

A connection whose weights are split by the features before them takes those of this rank, and gives a partial
sum; one whose weights are split by those behind them takes all features, and gives those of this rank. What
it takes of a layer that is split otherwise is gathered before, or cut out; what it gives, after. Shares of
rows are found in `tiles.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, PatchOwner

Side = Literal["", "pre", "post"]
POOLS = ("pool_max", "pool_sum", "pool_average")


class Part(NamedTuple):
    """A part of the features, or of the rows, of each split layer, of several that are equally large."""

    number: int
    parts: int

    def first(self, size: int) -> int:
        """Return the index of its first feature or row in a layer of `size` features or rows."""
        return self.number * self.size(size)

    def size(self, size: int) -> int:
        """Return its number of features or rows in a layer of `size` features or rows."""
        return size // self.parts


WHOLE = Part(0, 1)


class Share(NamedTuple):
    """What a rank does with the features, or with the rows, at the ends of a connection."""

    takes: Literal["own", "all"]
    gives: Literal["own", "all", "sum"]
    """`sum`: of all features, a partial sum."""
    pre: bool
    """The pre layer is split."""
    post: bool

    @property
    def gathers(self) -> bool:
        """Whether what all ranks have is gathered before."""
        return self.pre and self.takes == "all"

    @property
    def cuts(self) -> bool:
        """Whether the part of this rank is cut out before."""
        return not self.pre and self.takes == "own"

    @property
    def completes(self) -> bool:
        """Whether what all ranks have made is gathered after."""
        return not self.post and self.gives == "own"

    @property
    def keeps(self) -> bool:
        """Whether the part of this rank is cut out after."""
        return self.post and self.gives != "own"

    def taken(self, size: int, part: Part) -> int:
        """Return the length of its input along the split axis; `size` is that of the pre layer here."""
        return size * part.parts if self.gathers else part.size(size) if self.cuts else size

    def given(self, size: int, part: Part) -> int:
        """Return the length of its output along the split axis; `size` is that of the post layer here."""
        return size * part.parts if self.keeps else part.size(size) if self.completes else size


ALL = Share("all", "all", pre=False, post=False)
"""That of layers which every rank has as a whole."""


def split_layers(network: Network) -> frozenset[str]:
    """Return the layers whose features are split over ranks: `splittable` ones with parts of one size.

    Without those of `whole_layers`.
    """
    ranks = network.parallel.features
    if ranks == 1:
        return frozenset()
    able = (n for n, one in network.layers.items() if one.splittable and one.shape[2] % ranks == 0)
    return frozenset(able).difference(whole_layers(network))


def whole_layers(network: Network) -> dict[str, str]:
    """Return the layers between which there are weights that a connection needs as a whole, and why.

    What a plug-in makes of weights in a `deliver` of its own may depend on all of them.
    """
    found: dict[str, str] = {}
    for name, connection in network.connections.items():
        own = connection.borrows or name
        lender = network.connections[own].patch_owner if own in network.connections else None
        if lender is not None and connection.operation not in ("forward", "transposed"):
            reason = f"{name}, of type {connection.type}, delivers by all weights of {own}"
            found |= dict.fromkeys((lender.pre, lender.post), reason)
    return found


def side(owner: PatchOwner, split: frozenset[str]) -> Side:
    """Return by the features of which of their layers weights are split: of two, the post layer."""
    return "post" if owner.post in split else "pre" if owner.pre in split else ""


def shares(network: Network) -> Mapping[str, Share]:
    """Return the shares of the connections for which a rank does not have, or make, all features."""
    split, found = split_layers(network), {}
    for name, connection in network.connections.items() if split else ():
        share = _share(network, connection, split)
        if share.pre or share.post or share.takes == "own" or share.gives != "all":
            found[name] = share
    return found


def _share(network: Network, connection: Connection, split: frozenset[str]) -> Share:
    pre, post = connection.pre in split, connection.post in split
    if pre and connection.operation in ("copy", *POOLS):  # which do not mix features
        return Share("own", "own", pre, post)
    lender = network.connections.get(connection.borrows or "", connection).patch_owner
    split_by = "" if lender is None else side(lender, split)
    if not split_by:
        return Share("all", "all", pre, post)
    if (split_by == "pre") == (connection.operation == "forward"):
        return Share("own", "sum", pre, post)
    return Share("all", "own", pre, post)
