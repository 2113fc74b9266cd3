"""A sweep of units that differ in plain numbers: a strength of synapses with delays, and a current."""

from __future__ import annotations

from typing import Any

from petabatch.connections import Sparse
from petabatch.layers import Neurons
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep
from petabatch.weights import Uniform

STRENGTH, CURRENT = "connections.tracts.strength", "layers.units.parameters.I"
POINTS = {STRENGTH: (0.5, 0.7, 0.0, 1.0, -1.0, -0.3, 0.9), CURRENT: (0.1, 0.2, 0.3, 0.0, 1.0, 0.4, 0.5)}


def swept(
    points: dict[str, tuple[float, ...]] = POINTS,
    layer: type[Neurons] = Neurons,
    shape: tuple[int, int, int] = (1, 1, 6),
    **keys: Any,
) -> Network:
    """Return units with delays between them, for each of the points; `keys` are those of the connection."""
    units = layer(
        shape=shape,
        equations="dx/dt = (-x + tanh(1.5 * inside) + I / 2) / tau",
        parameters={"I": 0.3, "tau": 4.0},
        currents=("inside",),
        start={"x": 0.4},
    )
    weights = Uniform(low=-1.0, high=1.0)
    tracts = Sparse(
        pre="units", post="units", target="inside", probability=0.8, init=weights,
        delays=Uniform(low=0.0, high=5.0), **keys,
    )  # fmt: skip
    return Network(
        run=Run(batch=1, steps=30, display=30),
        layers={"units": units},
        connections={"tracts": tracts},
        sweep=Sweep(table=points),
    )
