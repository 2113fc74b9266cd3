"""Feature parallelism, `[parallel] features`: the layers that are split over ranks, and what prevents it.

A layer answers `splittable` where its units do not depend on each other; each rank has the weights of its
features, if their number divides. All other layers are computed on every rank of a group. `shares.py` says
what becomes of features between layers. Updates of weights that couple features have those of all ranks for
their time. `engine/split.py` makes the parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.errors import Problem
from petabatch.network.possible_parts import hint, numbers, sizes, undivided, with_parts
from petabatch.network.shares import split_layers
from petabatch.spec.network import Network
from petabatch.spec.parts import WeightOwner
from petabatch.spec.weights import Normalize


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
        features = numbers(sizes(network, "features").values())
        possible = [n for n in features if not any(_obstacles(with_parts(network, "features", n)))]
        one = hint("features", ranks, possible)
        problems += [Problem(key, reason, hint=one) for key, reason in obstacles]


def _obstacles(network: Network) -> Iterator[tuple[str, str]]:
    if not sizes(network, "features"):
        yield "parallel.features", "there is no code layer, such as lca, whose features could be split"
    elif not split_layers(network):
        for name, reason in undivided(network, "features").items():
            yield f"layers.{name}.shape", reason
