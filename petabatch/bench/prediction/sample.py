"""Slices of a network that are measured, and for how many steps."""

from __future__ import annotations

from petabatch.network.build import build
from petabatch.network.plan import multiply_adds
from petabatch.spec.network import Network, Parallel

_SLICES, _STEPS = 16, 10
"""The most slices, and the fewest steps."""


def whole(network: Network) -> Network:
    """Return the network on one rank, without evaluations."""
    return network.model_copy(update={"parallel": Parallel(), "evaluate": None})


def sample_size(network: Network, most: float) -> tuple[int, int]:
    """Return how many slices, and steps of a display, have at most `most` dense multiply-adds.

    All slices where each has its own values; else fewer first, then fewer steps.
    """
    each, display = max(1, multiply_adds(build(whole(network)))), network.run.display
    slices = network.batch
    if not network.slices and network.sweep is None:
        slices = min(slices, _SLICES, max(1, int(most / (each * display))))
    return slices, min(display, max(_STEPS, int(most / (each * slices))))


def batch_of(network: Network, slices: int) -> int:
    """Return `run.batch` for some slices, of all points of a sweep."""
    return slices // (network.batch // network.run.batch)
