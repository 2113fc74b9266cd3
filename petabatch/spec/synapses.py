"""Single synapses between units, in place of patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from petabatch import weight_mode
from petabatch.spec.weights import Initial
from petabatch.variable import Variable, Whole

LONGEST = 2**31 - 2
"""Maximum delay of a synapse in steps."""


class Ends(NamedTuple):
    """The units that synapses join."""

    positions: int
    """Places at which the same synapses are."""
    pre: int
    """Pre units at one place."""
    shape: tuple[int, int, int]
    """Of the post layer."""
    pre_shape: tuple[int, int, int]

    @property
    def post_units(self) -> int:
        """Post units at one place."""
        ny, nx, nf = self.shape
        return ny * nx * nf // self.positions


class Drawn(NamedTuple):
    """Synapses by pre unit and, of each, by post unit."""

    starts: np.ndarray
    """The first synapse of each pre unit, and the end, int64."""
    targets: np.ndarray
    """Post unit of each synapse, int32."""
    given: np.ndarray | None
    """Weights, None where `init` draws them."""
    delays: np.ndarray | None
    """Delay of each synapse in steps, int32; None where there are none."""


@dataclass(frozen=True)
class Synapses:
    """The synapses of a connection."""

    first: Drawn
    """Those of all slices, or of the first one."""
    ends: Ends
    init: Initial | None
    mode: str
    """The weight mode."""
    per_slice: bool
    """Each slice draws its own by its number; otherwise all slices of a seed have the same."""
    drawn: bool
    """Those of another seed are others; otherwise they are given."""
    most: int
    """Synapses of a slice at most."""
    longest: int
    """Delay of a synapse at most, in steps."""
    apart: bool = False
    """Slices differ in which synapses they have."""

    @property
    def starts(self) -> np.ndarray:
        """The first synapse of each pre unit, and the end, int64."""
        return self.first.starts

    @property
    def targets(self) -> np.ndarray:
        """Post unit of each synapse, int32."""
        return self.first.targets

    @property
    def delayed(self) -> bool:
        """Whether synapses have delays of their own."""
        return self.first.delays is not None

    @property
    def connected_per(self) -> Literal["network", "slice"]:
        """What has synapses of its own."""
        return "slice" if self.apart else "network"

    @property
    def per(self) -> Literal["network", "slice"]:
        """What has weights of its own."""
        return "slice" if self.apart else weight_mode.per(self.mode)

    @property
    def count(self) -> int:
        """Places for synapses of a slice."""
        return self.most if self.apart else len(self.targets)

    @property
    def structure(self) -> tuple[Variable, ...]:
        """The arrays that say which synapses there are, and their delays."""
        per, count = self.connected_per, self.count
        text = "first synapse of each pre unit"
        parts = Whole("first synapses", 0, count, "within" if self.apart else "whole")
        units = Whole("post units", 0, self.ends.post_units - 1)
        found = [
            Variable("starts", self.starts.shape, ("pre",), text, dtype="int64", per=per, whole=parts),
            Variable("targets", (count,), ("synapse",), "post unit", dtype="int32", per=per, whole=units),
        ]
        if self.delayed:
            steps = Whole("steps up to the longest delay of the network", 0, self.longest)
            late = Variable("delays", (count,), ("synapse",), "delay", "steps", "int32", per=per, whole=steps)
            found.append(late)
        return tuple(found)

    @property
    def weights(self) -> Variable:
        """The weights."""
        mode = "all slices" if self.per == "network" else "each slice"
        return Variable("weights", (self.count,), ("synapse",), f"weights of {mode}", per=self.per)

    def variables(self) -> tuple[Variable, ...]:
        """Declare the arrays of a connection."""
        found = [*self.structure, self.weights]
        if self.delayed:
            text = "what arrives in later steps, that of step t in place t modulo the length"
            shape, dims = (self.longest + 1, *self.ends.shape), ("lag", "y", "x", "feature")
            found.append(Variable("pending", shape, dims, text))
        return tuple(found)
