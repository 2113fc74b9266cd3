"""Single synapses between units, in place of patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from petabatch import weight_mode
from petabatch.spec.weights import Initial
from petabatch.variable import Variable


class Ends(NamedTuple):
    """The units that synapses join."""

    positions: int
    """Places at which the same synapses are."""
    pre: int
    """Pre units at one place."""
    shape: tuple[int, int, int]
    """Of the post layer."""

    @property
    def post_units(self) -> int:
        """Post units at one place."""
        ny, nx, nf = self.shape
        return ny * nx * nf // self.positions


@dataclass(frozen=True)
class Synapses:
    """Synapses by pre unit and, of each, by post unit."""

    starts: np.ndarray
    """The first synapse of each pre unit, and the end, int64."""
    targets: np.ndarray
    """Post unit of each synapse, int32."""
    given: np.ndarray | None
    """Weights, None where `init` draws them."""
    init: Initial | None
    mode: str
    """The weight mode."""
    drawn: bool
    """Which synapses there are depends on the seed."""

    @property
    def per(self) -> Literal["network", "slice"]:
        """What has weights of its own."""
        return weight_mode.per(self.mode)

    def variables(self) -> tuple[Variable, Variable, Variable]:
        """Declare the arrays of a connection."""
        count, mode = len(self.targets), "all slices" if self.per == "network" else "each slice"
        return (
            Variable(
                "starts",
                self.starts.shape,
                ("pre",),
                "first synapse of each pre unit",
                dtype="int64",
                per="network",
            ),
            Variable("targets", (count,), ("synapse",), "post unit", dtype="int32", per="network"),
            Variable("weights", (count,), ("synapse",), f"weights of {mode}", per=self.per),
        )
