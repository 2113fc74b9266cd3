"""When the weights of plastic connections are updated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from petabatch.clock import fired, fires
from petabatch.network.graph import Graph
from petabatch.weight_mode import over_positions, over_slices


@dataclass(frozen=True)
class UpdateSchedule:
    """The weight updates of one plastic connection."""

    name: str
    period: int
    offset: int
    reduced: bool
    """The change is summed over all slices: a sync event."""
    shared: bool = True
    """Positions have the same weights: their products are summed."""

    def due(self, step: int) -> bool:
        """Return whether the weights are updated at the end of `step`."""
        return step > 0 and fires(self.period, step, self.offset)

    def update(self, step: int) -> int:
        """Return the number of the update made at `step`, from 0."""
        return fired(self.period, step, self.offset) - 1 if self.period else 0


def weight_updates_of(graph: Graph) -> Iterator[UpdateSchedule]:
    """Yield the updates of all plastic connections."""
    display = graph.network.run.display
    for name, owner in graph.plastic.items():
        if owner.learn is not None:
            reduced, shared = over_slices(owner.mode), over_positions(owner.mode)
            yield UpdateSchedule(name, owner.learn.every.steps(display), owner.learn.offset, reduced, shared)
    for name, synapses in graph.learning_synapses.items():
        if synapses.learn is not None and over_slices(synapses.mode):
            yield UpdateSchedule(name, synapses.learn.every.steps(display), 0, reduced=True, shared=False)
