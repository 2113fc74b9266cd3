"""A network some of whose features are dead."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.learning import Revive
from petabatch.spec.network import ConnectionOutput, Network, Output
from petabatch.weights import Gaussian
from support.networks import GivenWeights, images, lca_network

DEAD = [2, 5, 11]


FRESH = Revive(after=2, init=Gaussian())


def network(revive: Revive | None, slices: int = 3, displays: int = 4, **keys: Any) -> Network:
    """Return a network whose features `DEAD` see only a channel that is always 0."""
    data = images(slices, displays)
    data[..., 2] = 0
    weights = np.random.default_rng(7).normal(size=(1, 1, 12, 6, 6, 3))
    weights[:, :, DEAD, :, :, :2] = 0
    net = lca_network(data, displays=displays, **keys)
    changed = {"init": GivenWeights(data=weights), "revive": revive}
    conv = net.connections["dictionary"].model_copy(update=changed)
    output = Output(connections={"dictionary": ConnectionOutput(variables=("weights", "usage"))})
    connections = {**net.connections, "dictionary": conv}
    return net.model_copy(update={"connections": connections, "output": output})
