"""Synapses sorted by their post units, as sums over all synapses of a unit read them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.kernels.cpu.sizes import AHEAD, steps_kept
from petabatch.kernels.operations.synapses import SORTED

NAMES = "starts", "targets", "delays", "weights"
"""The arrays of a connection that are sorted; `delays` only where there are any."""


class Incoming:
    """The synapses of a connection by post unit; of each unit the latest first, then by pre unit.

    So a sum has the order in which activities are sent: what arrives now was sent long ago first.
    """

    def __init__(self, count: int, post: int, longest: int, real: str) -> None:
        """Make room for at most `count` synapses onto `post` units, late by at most `longest` steps.

        Weights are of the precision `real`.
        """
        self._longest = longest
        self._given: dict[str, np.ndarray] = {}
        """What was sorted last."""
        self.starts = np.zeros(post + 1, np.int64)
        """The first synapse of each post unit, and the end."""
        self.soon = np.zeros(post, np.int64)
        """The first one of each that arrives in less than `AHEAD` - 1 steps."""
        self.delays = np.zeros(count, np.int32)
        self.places = np.zeros(count, np.int32)
        """Where the activity is that a synapse carries, relative to the step."""
        self.weights = np.zeros(count, real)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return what the kernel reads, in the order of `SORTED`."""
        return tuple(getattr(self, name) for name in SORTED)

    def sort(self, synapses: Mapping[str, np.ndarray]) -> None:
        """Sort the arrays of a connection, if they are others than the last time."""
        given = {name: array.reshape(-1) for name, array in synapses.items()}
        if self._given and all(np.array_equal(self._given[name], one) for name, one in given.items()):
            return
        self._given = {name: array.copy() for name, array in given.items()}
        starts, targets = given["starts"], given["targets"]
        count = int(starts[-1])
        targets = targets[:count].astype(np.int64)
        delays = given.get("delays", np.zeros(count, np.int32))[:count]
        order = np.argsort(targets * (self._longest + 1) + (self._longest - delays), kind="stable")
        posts = len(self.soon)
        np.cumsum(np.bincount(targets, minlength=posts), out=self.starts[1:])
        late = np.bincount(targets[delays >= AHEAD - 1], minlength=posts)
        self.soon[:] = self.starts[:-1] + late
        sources = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[order]
        self.delays[:count] = delays[order]
        self.places[:count] = sources * steps_kept(self._longest) - self.delays[:count]
        self.weights[:count] = given["weights"][:count][order]
