"""Operations that deliver activities by single synapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from petabatch.kernels.operations.base import OfSource
from petabatch.kernels.operations.fields import Floats, Ints, Longs, Source

SORTED = "starts", "soon", "delays", "places", "weights"
"""The arrays of synapses by post unit, as `kernels/cpu/incoming.py` makes them."""


@dataclass(frozen=True)
class List(OfSource):
    """The active units of a layer in a step; lists of some steps are kept.

    In several slices at once nothing is done: synapses that are summed up so read no list.
    """

    out: Ints
    layer: str

    @property
    def values(self) -> Floats:
        """The activities of the units."""
        return values_of(self.out)

    @property
    def ends(self) -> Ints:
        """Where the next list begins, and where each begins and ends.

        Step t has place t modulo the number of places.
        """
        return ends_of(self.out)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"list {self.source}"

    @property
    def _text(self) -> str:
        return f"active units of {self.source}"


@dataclass(frozen=True)
class Scatter(OfSource):
    """What single synapses deliver, summed from the active units.

    What is delayed waits in `out`, that of step t in place t modulo its length.
    """

    connection: str
    """Its arrays are those of `connections/<connection>`."""
    positions: int
    """Places at which the same synapses are."""
    active: Ints
    """The lists of active units of the pre layer."""
    delayed: bool = field(default=False, kw_only=True)
    abreast: bool = field(default=False, kw_only=True)
    """It may be made in several slices at once, and then sums up by post unit."""

    @property
    def values(self) -> Floats:
        """The activities of the active units."""
        return values_of(self.active)

    @property
    def ends(self) -> Ints:
        """Where each list begins and ends."""
        return ends_of(self.active)

    @property
    def starts(self) -> Longs:
        """Where the synapses of each unit start."""
        return f"connections/{self.connection}/starts"

    @property
    def targets(self) -> Ints:
        """Their post units."""
        return f"connections/{self.connection}/targets"

    @property
    def weights(self) -> Floats:
        """Their weights."""
        return f"connections/{self.connection}/weights"

    @property
    def delays(self) -> Ints:
        """Their delays in steps, if they have any."""
        return f"connections/{self.connection}/delays" if self.delayed else ""

    @property
    def sent(self) -> Floats:
        """Scratch of all slices: their last activities, and sums of these."""
        return f"{self.out}, of slices side by side" if self.abreast else ""

    @property
    def call(self) -> Longs:
        """Two numbers of a call."""
        return f"scratch/{self.connection}, call" if self.abreast else ""

    @property
    def post_starts(self) -> Longs:
        """The first synapse of each post unit, and the end; this and the next as `Incoming` has them."""
        return self._sorted(0)

    @property
    def soon(self) -> Longs:
        """The first synapse of each that arrives in less than some steps."""
        return self._sorted(1)

    @property
    def post_delays(self) -> Ints:
        """The delays of synapses by post unit."""
        return self._sorted(2)

    @property
    def places(self) -> Ints:
        """Where the activities are that they carry."""
        return self._sorted(3)

    @property
    def post_weights(self) -> Floats:
        """Their weights."""
        return self._sorted(4)

    def _sorted(self, number: int) -> str:
        return incoming(self.connection)[number] if self.abreast else ""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source, Source(self.active))

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"scatter {self.connection}"

    @property
    def _text(self) -> str:
        places = f" at each of {self.positions} positions" if self.positions > 1 else ""
        return f"scatter {self.source} by {self.connection}{places}"


def values_of(active: str) -> str:
    """Return the array of the activities that go with lists of active units."""
    return f"{active}, values"


def ends_of(active: str) -> str:
    """Return the array that says where each list begins and ends."""
    return f"{active}, ends"


def incoming(connection: str) -> tuple[str, ...]:
    """Return the arrays of the synapses of a connection by post unit, in the order of `SORTED`."""
    return tuple(f"scratch/{connection} by post unit, {name}" for name in SORTED)
