"""Operations that deliver activities by single synapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from petabatch.kernels.operations.base import OfSource, View
from petabatch.kernels.operations.fields import Floats, Ints, Key, Longs, Source
from petabatch.variable import Array

SORTED = "starts", "soon", "delays", "places", "weights"
"""The arrays of synapses by post unit, as `kernels/cpu/incoming.py` makes them."""


@dataclass(frozen=True)
class List(OfSource):
    """The active units of a layer in a step; lists of some steps are kept.

    In several slices at once nothing is done: synapses that are summed up so read no list.
    """

    out: Ints
    layer: str

    values = Key(Floats, "{0.out}, values")
    """The activities of the units."""
    ends = Key(Ints, "{0.out}, ends")
    """Where the next list begins, and where each begins and ends.

    Step t has place t modulo the number of places.
    """

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
    shape: tuple[int, ...] = field(default=(), kw_only=True)
    """Of the post layer."""
    abreast: bool = field(default=False, kw_only=True)
    """It may be made in several slices at once, and then sums up by post unit."""

    values = Key(Floats, "{0.active}, values")
    """The activities of the active units."""
    ends = Key(Ints, "{0.active}, ends")
    """Where each list begins and ends."""
    starts = Key(Longs, "connections/{0.connection}/starts")
    """Where the synapses of each unit start."""
    targets = Key(Ints, "connections/{0.connection}/targets")
    """Their post units."""
    weights = Key(Floats, "connections/{0.connection}/weights")
    """Their weights."""
    delays = Key(Ints, "connections/{0.connection}/delays", only="delayed")
    """Their delays in steps, if they have any."""
    sent = Key(Floats, "{0.out}, of slices side by side", only="abreast")
    """Scratch of all slices: their last activities, and sums of these."""
    call = Key(Longs, "scratch/{0.connection}, call", only="abreast")
    """Two numbers of a call."""
    post_starts = Key(Longs, "scratch/{0.connection} by post unit, starts", only="abreast")
    """The first synapse of each post unit, and the end; this and the next as `Incoming` has them."""
    soon = Key(Longs, "scratch/{0.connection} by post unit, soon", only="abreast")
    """The first synapse of each that arrives in less than some steps."""
    post_delays = Key(Ints, "scratch/{0.connection} by post unit, delays", only="abreast")
    """The delays of synapses by post unit."""
    places = Key(Ints, "scratch/{0.connection} by post unit, places", only="abreast")
    """Where the activities are that they carry."""
    post_weights = Key(Floats, "scratch/{0.connection} by post unit, weights", only="abreast")
    """Their weights."""

    def on(self, view: View) -> Array:
        """Return the sums, `[slices, ny, nx, nf]`; of those with delays, what arrives in this step."""
        layer, synapses = view.see(self.source), view.synapses(self.connection, self.delayed)
        if self.delayed:
            synapses = {**synapses, "step": view.step}
        pre = layer[0].size // self.positions
        return view.kernels.scatter(layer, synapses, self.positions, pre, self.shape)

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


def incoming(connection: str) -> tuple[str, ...]:
    """Return the arrays of the synapses of a connection by post unit, in the order of `SORTED`."""
    return tuple(f"scratch/{connection} by post unit, {name}" for name in SORTED)
