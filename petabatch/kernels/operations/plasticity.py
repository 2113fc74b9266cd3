"""The operation of events of single synapses: row functions on the synapses of units that spike."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.kernels.operations.base import OfSource
from petabatch.kernels.operations.fields import Floats, Ints, Key, Longs, Numbers, Source, Sources

SYNAPSE, OWN, OTHER, ONE, SINCE_SYNAPSE, SINCE_OWN, SINCE_OTHER = range(7)
"""What an array that an event reads has a value of, the `buffer` of its source: each synapse, each unit of
the layer that spikes or of the other one, all; the steps since traces of these have last changed."""


@dataclass(frozen=True)
class RunEvents(OfSource):
    """Row functions on the synapses of the units of a layer that spike, and on these units."""

    connection: str
    active: Ints
    """The lists of the units that spike."""
    of_synapses: Sources
    """The arrays that the function of synapses is called with, those that change first."""
    of_units: Sources
    """The same of the function of units."""
    changing: tuple[int, int]
    """How many of both change."""
    functions: tuple[int, int]
    """Their addresses; 0 of units: there is none."""
    delivers: bool
    """What they deliver is added up in `out`."""
    longest: int
    """The longest delay of a synapse, in steps; synapses are then ordered by delay."""
    starts: Longs
    """The first synapse of each unit, and the end."""
    order: Ints
    """The synapses unit by unit; without it, they are in this order."""
    others: Ints
    """The other unit of each synapse."""
    ordered: bool
    """The other units are in this order too, which spares a random access to memory for each."""
    changed: Ints
    """The step in which traces of synapses have last changed, where they do."""
    changed_units: Ints
    """The same of units."""
    room: str
    """What scratch is named after."""
    parameters: Numbers

    values = Key(Floats, "{0.active}, values")
    """The activities of the units that spike."""
    ends = Key(Ints, "{0.active}, ends")
    """Where each list begins and ends."""
    delays = Key(Ints, "connections/{0.connection}/delays", only="longest")
    """The delays of synapses in steps."""
    table = Key(Longs, "scratch/{0.room} addresses")
    """Scratch for addresses; then for a chunk of numbers of each array, of units and synapses, of values."""
    buffers = Key(Floats, "scratch/{0.room} buffers")
    places = Key(Ints, "scratch/{0.room} places")
    carried = Key(Floats, "scratch/{0.room} carried")

    @property
    def reads(self) -> tuple[Source, ...]:
        """The arrays that it reads."""
        return (self.source, Source(self.active), *self.of_synapses, *self.of_units)
