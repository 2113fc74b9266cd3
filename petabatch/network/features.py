"""Feature parallelism, `[parallel] features`: the layers that are split over ranks, and what prevents it.

A layer answers `splittable` where its units do not depend on each other; each rank has the weights of its
features, if their number divides. All other layers are computed on every rank of a group. `shares.py` says
what becomes of features between layers. Updates of weights that couple features have those of all ranks for
their time. `engine/split.py` makes the parts.
"""

from __future__ import annotations

from dataclasses import replace

from petabatch.errors import Problem
from petabatch.network.possible_parts import by_reason, hint, numbers, sizes, undivided, with_parts
from petabatch.network.shares import split_layers, whole_layers
from petabatch.spec.network import Network
from petabatch.spec.parts import PatchOwner
from petabatch.spec.weights import Normalize


def learns_together(owner: PatchOwner) -> bool:
    """Return whether an update of weights is one of all features at once."""
    apart = owner.learn is None or owner.learn.featurewise
    return not apart or bool(owner.decorrelate) or owner.revive is not None


def normalised_together(rule: Normalize) -> bool:
    """Return whether weights are normalised over several features or connections."""
    return not rule.featurewise or bool(rule.together)


def check_features(network: Network, problems: list[Problem]) -> None:
    """Report what prevents the features of a network from being split."""
    ranks = network.parallel.features
    if ranks == 1:
        return
    if obstacle := _obstacle(network):
        features = numbers(sizes(network, "features").values())
        possible = [n for n in features if not _obstacle(with_parts(network, "features", n))]
        problems.append(replace(obstacle, hint=hint("features", ranks, possible)))


def _whole(network: Network) -> dict[str, str]:
    """Return those of `whole_layers` that could be split."""
    able = sizes(network, "features")
    return {name: reason for name, reason in whole_layers(network).items() if name in able}


def _obstacle(network: Network) -> Problem | None:
    """Return why no layer can be split; None if one can."""
    if not sizes(network, "features"):
        return Problem(
            "parallel.features",
            "no layer has features that can be split over ranks",
            found=f"layers of type {', '.join(dict.fromkeys(one.type for one in network.layers.values()))}",
            expected="a layer of type lca, ista, momentum_lca or heavy_ball, or a plug-in with `splittable`",
        )
    if not split_layers(network):
        return Problem(
            "parallel.features",
            "no layer has features that can be split over ranks",
            found=by_reason({**_whole(network), **undivided(network, "features")}),
        )
    return None
