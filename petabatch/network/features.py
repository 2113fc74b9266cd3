"""Feature parallelism, `[parallel] features`: the layers that are split over ranks, and what prevents it.

A layer answers `splittable` where its units do not depend on each other. Its features can be split over ranks
if it acts on others through sums over features or one to one; each of them has the weights of its own. All
other layers and connections are computed on every rank of a group. Updates of weights that couple features
have those of all ranks for their time.
`engine/split.py` makes the parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from petabatch.errors import Problem
from petabatch.network.possible_parts import divisors, hint, with_parts
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, WeightOwner
from petabatch.spec.weights import Normalize


def split_layers(network: Network) -> frozenset[str]:
    """Return the layers whose features are split over ranks: all `splittable` ones if `features` > 1."""
    if network.parallel.features == 1:
        return frozenset()
    return frozenset(name for name, layer in network.layers.items() if layer.splittable)


def partial_sums(network: Network) -> list[int]:
    """Return the bytes of each partial sum over features that a rank sends in a step for a slice."""
    split, size = split_layers(network), np.dtype(network.run.precision).itemsize
    return [
        size * math.prod(network.layers[connection.post].shape)
        for connection in network.connections.values()
        if connection.pre in split and connection.post not in split
    ]


def learns_together(owner: WeightOwner) -> bool:
    """Return whether an update of weights is one of all features at once."""
    apart = owner.learn is None or owner.learn.featurewise
    return not apart or bool(owner.decorrelate) or owner.revive is not None


def normalised_together(rule: Normalize) -> bool:
    """Return whether weights are normalised over several features or connections."""
    return not rule.featurewise or bool(rule.together)


def check_features(network: Network, problems: list[Problem]) -> None:
    """Report everything that prevents the features of a network from being split."""
    ranks = network.parallel.features
    if ranks == 1:
        return
    obstacles = list(_obstacles(network))
    if obstacles:
        features = divisors(network.layers[name].shape[2] for name in split_layers(network))
        possible = [n for n in features if not any(_obstacles(with_parts(network, "features", n)))]
        one = hint("features", ranks, possible)
        problems += [Problem(key, reason, hint=one) for key, reason in obstacles]


def _obstacles(network: Network) -> Iterator[tuple[str, str]]:
    split = split_layers(network)
    yield from _run(network, split)
    yield from _layers(network, split)
    for name, connection in network.connections.items():
        for key, reason in _connection(network, connection, split):
            yield f"connections.{name}{key}", reason


def _run(network: Network, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    if not split:
        yield (
            "parallel.features",
            "there is no code layer, such as lca, whose features could be split",
        )


def _layers(network: Network, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    ranks = network.parallel.features
    for name, layer in network.layers.items():
        if name in split and layer.shape[2] % ranks:
            yield f"layers.{name}.shape", f"{layer.shape[2]} features cannot be split into {ranks} parts"
        if layer.reset_to is not None and (name in split) != (layer.reset_to in split):
            yield f"layers.{name}.reset_to", "one of the two layers is split, the other is not"


def _connection(network: Network, connection: Connection, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    ends, operation = (connection.pre in split, connection.post in split), connection.operation
    if operation == "copy":
        return
    if ends == (True, True):
        yield "", "it connects all features of one split layer to all features of another"
    elif any(ends) and operation not in ("forward", "transposed"):
        yield "", "split layers are connected by identities, conv, clone and transpose"
    lent = network.connections.get(connection.borrows or "")
    if lent is not None:
        of_weights = lent.pre in split, lent.post in split
        if ends != (of_weights if operation == "forward" else of_weights[::-1]):
            yield ".of", "its weights and its layers are split differently"
    weighted = connection.owner
    if weighted is not None and weighted.learn is not None:
        yield from _product(".learn", weighted.learn.against, connection.post, split)
    yield from _product(".error", connection.learns_against, connection.post, split)


def _product(key: str, against: str | None, post: str, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield why weights onto a layer cannot learn from products with another one."""
    if against is None or (against in split) == (post in split):
        return
    if post in split:
        yield key, f"the rule multiplies with {against}, which is not split as {post} is"
    else:
        yield key, f"the rule multiplies with all features of {against}, which is split"
