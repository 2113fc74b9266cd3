"""Which layers have their features spread over ranks, `[parallel] features`, and whether a network allows it.

A code layer's features are split where nothing but its reconstruction joins them: it drives other layers by
sums over features, and each feature learns by itself. Everything else is done alike on all ranks of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from petabatch.errors import Problem
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Probe

Refuse = Callable[[str, str], None]
"""Called with a key and why it stands in the way."""


def split_layers(network: Network) -> frozenset[str]:
    """Return the layers whose features are spread over ranks: those of type `lca`, if any are."""
    if network.parallel.features == 1:
        return frozenset()
    return frozenset(name for name, layer in network.layers.items() if layer.splittable)


def check_features(network: Network, problems: list[Problem]) -> None:
    """Find what keeps the features of a network from being split."""
    ways = network.parallel.features
    if ways == 1:
        return
    split = split_layers(network)
    refused = [*_run(network, split), *_layers(network, split)]
    for name, connection in network.connections.items():
        refused += [(f"connections.{name}{key}", why) for key, why in _connection(network, connection, split)]
    for name, probe in network.probes.items():
        refused += [(f"probes.{name}", why) for why in _probe(network, probe, split)]
    hint = f"parallel.features is {ways}; with 1 there is nothing to split"
    problems += [Problem(key, why, hint=hint) for key, why in refused]


def _run(network: Network, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    if not split:
        yield "parallel.features", "there is no layer of type lca, whose features could be split"
    if network.run.until is not None:
        yield "run.until", "the duality gap that ends displays needs all features"
    if network.run.device == "gpu":
        yield "run.device", "features are split on CPUs only; spread slices over GPUs, or take device = cpu"


def _layers(network: Network, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    ways = network.parallel.features
    for name, layer in network.layers.items():
        if name in split and layer.shape[2] % ways:
            yield f"layers.{name}.shape", f"{layer.shape[2]} features cannot be split into {ways} equal parts"
        if name in split and layer.controller is not None:
            yield f"layers.{name}.time_scale", "adaptive time scales need the energy of all features"
        if layer.reset_to is not None and ({name, layer.reset_to} & split):
            yield f"layers.{name}.reset_to", "layers whose features are split do not start from one another"


def _connection(network: Network, connection: Connection, split: frozenset[str]) -> Iterator[tuple[str, str]]:
    ends = (connection.pre in split, connection.post in split)
    if ends == (True, True):
        yield "", "it joins all features of one split layer to all of another"
    elif ends == (True, False) and connection.operation != "forward":
        yield "", "only conv and clone, which sum over features, can lead out of a split layer"
    elif ends == (False, True) and connection.operation != "transposed":
        yield "", "only the transpose of a connection that leads out of it can lead into a split layer"
    if connection.borrows is not None:
        owner = network.connections.get(connection.borrows)
        if connection.learns_against in split:
            yield ".error", "it multiplies with all features of a split layer"
        if owner is not None and (owner.pre in split) != (ends[0] or ends[1]):
            yield ".of", "its weights belong to features that are split otherwise"
    weighted = connection.owner
    if weighted is None:
        return
    if weighted.learn is not None and weighted.learn.against in split:
        yield ".learn", f"it multiplies with all features of {weighted.learn.against}"
    if not ends[0]:
        return
    if weighted.learn is not None and not weighted.learn.featurewise:
        yield ".learn", "of the learning rules, hebbian and adam treat each feature by itself"
    if weighted.decorrelate:
        yield ".decorrelate", "decorrelation joins all features"
    if weighted.revive is not None:
        yield ".revive", "features that start anew need the random numbers of all"
    rule = weighted.normalize
    if rule is not None and (not rule.featurewise or rule.together):
        yield ".normalize", "only normalisers of one connection by pre feature treat each feature by itself"


def _probe(network: Network, probe: Probe, split: frozenset[str]) -> Iterator[str]:
    through = (network.connections[name] for name in probe.connections() if name in network.connections)
    if any({connection.pre, connection.post} & split for connection in through):
        yield "it measures through connections whose features are split"
    elif not split.isdisjoint(probe.layers()):
        if not probe.splittable:
            yield "of the probes, energy, l0, l1 and l2 can be summed over features that are split"
        elif probe.masks():
            yield "probes of split features have no mask"
