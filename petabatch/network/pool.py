"""Conditions of a pool, `run.pool`: slices that have nothing in common which changes."""

from __future__ import annotations

from petabatch.errors import Problem
from petabatch.spec.network import Network
from petabatch.weight_mode import over_slices


def check_pool(network: Network, problems: list[Problem]) -> None:
    """Check that each slice can be advanced from its first step to its last whenever a slot is free."""
    if not network.run.pool:
        return
    if network.parallel.batch is not None:
        problems.append(
            Problem(
                "parallel.batch",
                "with `run.pool`, ranks take slices when they are free: they have no shares of the batch",
                found=str(network.parallel.batch),
                hint="leave it out: a pool runs on any number of ranks",
            )
        )
    for key, there, why in (
        ("sweep", network.sweep is not None, "points of a sweep are computed in waves: sweep.wave"),
        ("evaluate", network.evaluate is not None, "evaluations look at all slices at one step"),
        ("run.start_from", network.run.start_from is not None, "each slice begins at step 0"),
    ):
        if there:
            problems.append(
                Problem(key, "this is not available with `run.pool`", expected=f"one of the two: {why}")
            )
    for name, connection in network.connections.items():
        owner = connection.patch_owner
        if owner is None:
            continue
        if owner.learns and owner.learn is not None:
            problems.append(
                Problem(
                    f"connections.{name}.learn",
                    "with `run.pool`, weights are frozen: slices are computed at different times",
                    found=f"every = {owner.learn.every}",
                    expected='every = "never", or no `learn`',
                )
            )
        elif not over_slices(owner.mode):
            problems.append(
                Problem(
                    f"connections.{name}.mode",
                    "with `run.pool`, weights belong to all slices, as slots have none of their own",
                    found=owner.mode,
                    expected=f"extra_{owner.mode}",
                )
            )
    for name, layer in network.layers.items():
        if layer.images is not None and layer.images.source.once:
            problems.append(
                Problem(
                    f"layers.{name}.source",
                    "with `run.pool`, images are shown in any order, and this source is read once",
                    found=layer.images.source.type,
                    expected="a source whose items are numbered, such as an array or a Dataset",
                )
            )
