"""One weight update: the learning rule, decorrelation, revival of dead features, normalisation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from petabatch.engine.features import Features
from petabatch.equations.synapses import CHANGE
from petabatch.learning.decorrelate import decorrelate
from petabatch.network.features import learns_together, normalised_together
from petabatch.network.graph import ACTIVE, Graph
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import PatchOwner
from petabatch.variable import Array


def change(
    graph: Graph,
    features: Features,
    name: str,
    mine: Mapping[str, Array],
    sums: Mapping[str, Array],
    update: int,
    slices: int,
    owners: Sequence[int],
    xp: Any,
    tag: int = 0,
) -> None:
    """Change the weights of connection `name` in place by update number `update`; collective for each `tag`.

    `graph` is that of all features, which an update that couples features gathers. `mine` holds the
    connection's arrays by their names; `sums` those of `Graph.summed` over `slices` slices, which are in
    `mine` otherwise. `owners` are the slices the weights belong to, (0,) when they are one for all.
    """
    owner = graph.plastic[name]
    assert owner.learn is not None
    with ExitStack() as stack:
        if learns_together(owner) or features.cuts_patches(name):
            mine, sums = (stack.enter_context(features.all_of(name, arrays, tag)) for arrays in (mine, sums))
        sums = {**mine, **sums}
        weights = mine["weights"]
        with calling(owner.learn, f"connections.{name}.learn"):
            owner.learn.change(weights, sums["product"], sums.get("counts"), sums, update, slices, xp)
        if owner.decorrelate:
            from petabatch.kernels.cpu.products import multiply  # numba, which is not needed before a run

            decorrelate(weights, owner.decorrelate, multiply if xp is np else xp.matmul)
        if "usage" in mine:
            mine["usage"][...] = sums[ACTIVE]
        if owner.revive is not None:
            _revive(graph, name, owner, mine, update, owners, xp)


def add_changes(graph: Graph, name: str, mine: Mapping[str, Array], total: Array) -> None:
    """Add the changes of all slices to the weights of single synapses, in place, and clip these once."""
    rule = graph.weighted[name].plasticity
    assert rule is not None
    weights = mine["weights"]
    weights += total.reshape(weights.shape)
    if rule.bounds is not None:
        np.clip(weights, *rule.bounds, out=weights)
    mine[CHANGE][...] = 0


def _revive(
    graph: Graph,
    name: str,
    owner: PatchOwner,
    mine: Mapping[str, Array],
    update: int,
    owners: Sequence[int],
    xp: Any,
) -> None:
    assert owner.revive is not None
    assert owner.learn is not None
    network, weights, link = graph.network, mine["weights"], graph.wirings[name].link
    assert link is not None
    dead = owner.revive.dead(mine["idle"], mine["usage"], xp)
    for lane, number in enumerate(owners):
        which = xp.flatnonzero(dead[lane])
        if len(which) == 0:
            continue
        shape = weights.shape[1:]
        run = network.run
        new = owner.revive.fresh(owner.init, shape, run.seed, name, update, number, run.batch)[None]
        if owner.normalize is not None:
            owner.normalize.apply(new, np)
        weights[lane, 0, 0, which] = xp.asarray(new)[0, 0, 0, which]
        for variable in owner.learn.variables(owner.weights(link)):
            mine[variable.name][lane, 0, 0, which] = variable.initial


def normalise(
    graph: Graph,
    features: Features,
    arrays: Mapping[str, Array],
    xp: Any,
    changed: Collection[str] | None = None,
    tag: int = 0,
) -> set[str]:
    """Normalise weights in place, after the update of connections `changed`, or at the start.

    Return the connections whose weights are not what they were: `changed`, and what is normalised with them.
    """
    touched = set(changed or ())
    for name, owner in graph.patched.items():
        rule = owner.normalize
        if rule is None:
            continue
        members = (name, *rule.together)
        due = rule.at_start if changed is None else rule.at_updates and not touched.isdisjoint(members)
        if due:
            each = {member: arrays[f"connections/{member}/weights"] for member in members}
            if normalised_together(rule) or any(map(features.cuts_patches, members)):
                with ExitStack() as stack:
                    for member, weights in each.items():
                        whole = stack.enter_context(features.all_of(member, {"weights": weights}, tag))
                        each[member] = whole["weights"]
                    rule.apply_together(list(each.values()), xp)
            else:
                rule.apply_together(list(each.values()), xp)
            touched.update(members)
    return touched
