"""Features at both ends of connections, where ranks have parts of them: what each takes of one, and gives.

A connection whose weights are split by the features before them takes those of this rank, and gives a partial
sum; one whose weights are split by those behind them takes all features, and gives those of this rank. What
it takes of a layer that is split otherwise is gathered before, or cut out; what it gives, after.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, WeightOwner

Side = Literal["", "pre", "post"]
POOLS = ("pool_max", "pool_sum", "pool_average")


class Share(NamedTuple):
    """What a rank does with the features at the ends of a connection."""

    takes: Literal["own", "all"]
    gives: Literal["own", "all", "sum"]
    """`sum`: of all features, a partial sum."""
    pre: bool
    """The pre layer is split."""
    post: bool

    @property
    def gathers(self) -> bool:
        """Whether the features of all ranks are gathered before."""
        return self.pre and self.takes == "all"

    @property
    def cuts(self) -> bool:
        """Whether the features of this rank are cut out before."""
        return not self.pre and self.takes == "own"

    @property
    def joins(self) -> bool:
        """Whether something is exchanged after: partial sums, or features for a layer with all of them."""
        return self.gives == "sum" or self.completes

    @property
    def completes(self) -> bool:
        """Whether the features of all ranks are gathered after."""
        return not self.post and self.gives == "own"

    @property
    def keeps(self) -> bool:
        """Whether the features of this rank are cut out after."""
        return self.post and self.gives != "own"


def split_layers(network: Network) -> frozenset[str]:
    """Return the layers whose features are split over ranks: all `splittable` ones if `features` > 1."""
    if network.parallel.features == 1:
        return frozenset()
    return frozenset(name for name, layer in network.layers.items() if layer.splittable)


def side(owner: WeightOwner, split: frozenset[str]) -> Side:
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
    lender = network.connections.get(connection.borrows or "", connection).owner
    split_by = "" if lender is None else side(lender, split)
    if not split_by:
        return Share("all", "all", pre, post)
    if (split_by == "pre") == (connection.operation == "forward"):
        return Share("own", "sum", pre, post)
    return Share("all", "own", pre, post)


def summed(network: Network) -> list[int]:
    """Return the bytes of each partial sum over features that a rank sends in a step for a slice."""
    return [
        _nbytes(network, network.connections[name].post)
        for name, share in shares(network).items()
        if share.gives == "sum"
    ]


def gathered(network: Network) -> list[int]:
    """Return the bytes of each layer that is gathered in a step for a slice; a rank sends its part."""
    once, found = set[tuple[str, str, int, bool]](), []
    for name, share in shares(network).items():
        c = network.connections[name]
        one = c.pre, c.carries, c.delay, c.feedback
        if share.gathers and one not in once:
            once.add(one)
            found.append(_nbytes(network, c.pre))
        if share.completes:
            found.append(_nbytes(network, c.post))
    return found


def _nbytes(network: Network, layer: str) -> int:
    return np.dtype(network.run.precision).itemsize * math.prod(network.layers[layer].shape)
