"""What is allowed in a network but seldom meant: notes of `petabatch check`, and in the log of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from petabatch.spec.network import Network


def advice(network: Network) -> Iterator[str]:
    """Yield the notes on a checked network; none where values differ among slices."""
    if network.slices or network.sweep is not None or network.over_time:
        return
    for name, probe in network.probes.items():
        if probe.penalty is None:
            continue
        code, found = probe.penalty
        minimised = network.layers[code].penalty
        if minimised is None:
            continue
        same = math.isclose(found.coefficient, minimised.coefficient, rel_tol=1e-6)
        if found.cost != minimised.cost or not same:
            yield (
                f"probes.{name}: its penalty is not the one that {code} minimises: "
                f"{found.cost} with coefficient {found.coefficient:g}, and "
                f"{minimised.cost} with coefficient {minimised.coefficient:g}"
            )
