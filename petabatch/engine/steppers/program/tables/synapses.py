"""Events of synapses that learn, as calls of the row functions of their rule."""

from __future__ import annotations

from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.equations.synapses import Event
from petabatch.kernels.cpu.program.units import CHUNK
from petabatch.kernels.cpu.rows import ARRAYS, row_address
from petabatch.kernels.operations.plasticity import RunEvents
from petabatch.network.operations import SynapticEvents
from petabatch.spec.plasticity import row_of

_PLACES = 3
"""Numbers of each synapse of a chunk: the synapse, its unit that spikes, the other one."""


def synaptic_events(to: Writer, one: SynapticEvents) -> None:
    """Write the row of the events of a layer at the synapses of a connection."""
    units, numbers = one.units, one.rule.numbers(one.dt)

    def address(event: Event | None) -> int:
        return 0 if event is None else row_address(*row_of(event, one.model), to.real)

    def changed(event: Event | None) -> str:
        return "" if event is None else one.changed(event)

    of_synapses = one.sources(one.synapses)
    of_units = () if units is None else one.sources(units)
    full = RunEvents(
        one.out,
        one.source,
        one.connection,
        one.active,
        of_synapses,
        of_units,
        (len(one.synapses.state), 0 if units is None else len(units.state)),
        (address(one.synapses), address(units)),
        one.side == "pre",
        one.longest,
        one.starts,
        one.order,
        one.others,
        one.side == "post",
        changed(one.synapses),
        changed(units),
        f"{one.connection} {one.side}",
        tuple(numbers.values()),
    )
    arrays = max(len(of_synapses), len(of_units)) + 1
    to.lists[full.table], to.scratch[full.buffers] = ARRAYS + arrays, arrays * CHUNK
    to.scratch[full.places], to.scratch[full.carried] = _PLACES * CHUNK, CHUNK
    to.row(full, one)
