"""Networks that learn by the rule `online`, from patches that do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.learning import Online
from petabatch.spec.network import Network
from support.networks import lca_network

UPDATES = 5


def network(
    data: np.ndarray,
    patch: int,
    rule: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
    features: int = 12,
    threshold: float = 0.4,
    **given: Any,
) -> Network:
    """Return a network whose square patches do not overlap, with one new image in each display."""
    given = {"displays": UPDATES, "display": 60, "stride": patch, **given}
    found = lca_network(data, features, (patch, patch), **given)
    learn = Online(input="image", **(rule or {}))
    conv = found.connections["dictionary"].model_copy(update={"learn": learn, **(changes or {})})
    code = found.layers["V1"].model_copy(update={"threshold": threshold})
    return found.model_copy(
        update={
            "connections": {**found.connections, "dictionary": conv},
            "layers": {**found.layers, "V1": code},
        }
    )
