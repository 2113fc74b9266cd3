"""Single synapses between units, in place of patches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from petabatch import weight_mode
from petabatch.spec.plasticity import SynapticRule
from petabatch.spec.weights import Initial
from petabatch.variable import Array, Variable, Whole

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
    learn: SynapticRule | None = None
    """How they change; None where they stay."""

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

    @property
    def orders(self) -> tuple[Variable, ...]:
        """The other orders in which events go through synapses that learn, made of `structure`."""
        if self.learn is None:
            return ()
        per, count, found = self.connected_per, self.count, []
        said = [("by_delay", "synapses of each pre unit by delay")] if self.delayed else []
        if self.learn.plasticity.on_post is not None:
            said += [("incoming", "synapses by post unit"), ("sources", "pre unit of each of these")]
            text, shape = "first of the incoming synapses of each post unit", (self.ends.post_units + 1,)
            found.append(
                Variable("post_starts", shape, ("post",), text, dtype="int64", per=per, checkpoint=False)
            )
        return (
            *found,
            *(
                Variable(name, (count,), ("synapse",), text, dtype="int32", per=per, checkpoint=False)
                for name, text in said
            ),
        )

    def put_in_order(self, arrays: Mapping[str, Array]) -> None:
        """Fill `orders` of the `structure`, `[slices or 1, ...]`."""
        for index in range(len(arrays["starts"]) if self.orders else 0):
            starts, targets = arrays["starts"][index], arrays["targets"][index]
            count = int(starts[-1])
            sources = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
            if "by_delay" in arrays:
                arrays["by_delay"][index, :count] = np.lexsort((arrays["delays"][index, :count], sources))
            if "incoming" in arrays:
                order = np.argsort(targets[:count], kind="stable")
                arrays["incoming"][index, :count], arrays["sources"][index, :count] = order, sources[order]
                units = np.arange(self.ends.post_units + 1)
                arrays["post_starts"][index] = np.searchsorted(targets[:count][order], units)

    @property
    def learned(self) -> tuple[Variable, ...]:
        """The variables of the rule, beside the weights."""
        if self.learn is None:
            return ()
        held = self.per == "network"
        return self.learn.plasticity.arrays(self.ends, self.count, self.delayed, held)

    def variables(self) -> tuple[Variable, ...]:
        """Declare the arrays of a connection."""
        found = [*self.structure, self.weights, *self.orders, *self.learned]
        if self.delayed or self.learn is not None:
            text = "what arrives in later steps, that of step t in place t modulo the length"
            places = self.longest + 1
            if self.learn is not None:  # weights are read where spikes arrive
                text, places = "what arrives in the next step", 1
            shape, dims = (places, *self.ends.shape), ("lag", "y", "x", "feature")
            found.append(Variable("pending", shape, dims, text))
        return tuple(found)
