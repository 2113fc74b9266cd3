"""The operation of events of single synapses that learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from petabatch.clock import Clock
from petabatch.equations.synapses import HELD, WEIGHT, Event, Place, Side, SynapseModel, since
from petabatch.kernels.operations.base import OfSource, View
from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.plasticity import (
    ONE,
    OTHER,
    OWN,
    SINCE_OTHER,
    SINCE_OWN,
    SINCE_SYNAPSE,
    SYNAPSE,
)
from petabatch.spec.plasticity import CHANGED, Plasticity
from petabatch.variable import Array


@dataclass(frozen=True)
class SynapticEvents(OfSource):
    """What spikes of a layer change at its synapses, and what these deliver if it is the pre layer."""

    connection: str
    side: Side
    active: str
    """The lists of units that spike."""
    rule: Plasticity
    model: SynapseModel
    factors: Mapping[str, tuple[str, bool]]
    """The arrays of activities that are read, by their names in texts, and whether they are of one unit."""
    dt: float
    longest: int = field(kw_only=True)
    """The longest delay of a synapse after which it has the event."""
    delayed: bool = field(kw_only=True)

    @property
    def synapses(self) -> Event:
        """What changes at each synapse."""
        return self.model.synapses[self.side]

    @property
    def units(self) -> Event | None:
        """What changes of each unit that spikes."""
        return self.model.units.get(self.side)

    @property
    def place(self) -> str:
        """The first part of the keys of its arrays."""
        return f"connections/{self.connection}"

    @property
    def starts(self) -> str:
        """The array with the first synapse of each unit."""
        return f"{self.place}/{'starts' if self.side == 'pre' else 'post_starts'}"

    @property
    def order(self) -> str:
        """The array with the synapses unit by unit, "" where they are in this order."""
        if self.side == "post":
            return f"{self.place}/incoming"
        return f"{self.place}/by_delay" if self.delayed else ""

    @property
    def others(self) -> str:
        """The array with the other unit of each synapse, of incoming ones in the order of these."""
        return f"{self.place}/{'targets' if self.side == 'pre' else 'sources'}"

    def sources(self, event: Event) -> tuple[Source, ...]:
        """Return the arrays that an event is called with, those that change first; see `SYNAPSE`."""
        return tuple(map(self._source, self.model.arrays(event)))

    def changed(self, event: Event) -> str:
        """Return the array of the steps of the last change that an event notes, "" if it notes none."""
        if not event.stamped:
            return ""
        return f"{self.place}/{CHANGED['synapse' if event is self.synapses else self.side]}"

    def _source(self, name: str) -> Source:
        kinds: Mapping[Place, tuple[int, int]] = {
            "synapse": (SYNAPSE, SINCE_SYNAPSE),
            "pre": (OWN, SINCE_OWN) if self.side == "pre" else (OTHER, SINCE_OTHER),
            "post": (OTHER, SINCE_OTHER) if self.side == "pre" else (OWN, SINCE_OWN),
        }
        for place, (_, passed) in kinds.items():
            if name == since(place):
                return Source(f"{self.place}/{CHANGED[place]}", buffer=passed)
        if name in self.factors:
            key, single = self.factors[name]
            return Source(key, buffer=ONE if single else kinds["post"][0])
        own = "weights" if name in (WEIGHT, HELD) else name
        return Source(f"{self.place}/{own}", buffer=kinds[self.model.places.get(name, "synapse")][0])

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        events = (self.synapses, *([] if self.units is None else [self.units]))
        return (self.source, Source(self.active), *(one for event in events for one in self.sources(event)))

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes."""
        found = [self.out]
        for event in (self.synapses, *([] if self.units is None else [self.units])):
            found += [one.key for one in self.sources(event)[: len(event.state)]]
            found += [self.changed(event)] if event.stamped else []
        return tuple(dict.fromkeys(found))

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{self.side} events {self.connection}"

    @property
    def _text(self) -> str:
        return f"{self.side} events of {self.source} at {self.connection}"

    def on(self, view: View) -> Array:
        """Make the events of a step, slice by slice."""
        out = view.see(Source(self.out))
        if self.side == "pre":
            out[...] = 0
        fired = [
            view.see(replace(self.source, lookback=self.source.lookback + late))
            for late in range(self.longest + 1)
        ]
        for lane in range(len(out)):
            own = _Lane(view, lane, out.dtype)
            for late, activity in enumerate(fired):
                units = np.flatnonzero(activity[lane])
                if len(units):
                    self._visit(own, units, activity[lane].reshape(-1)[units], late)
        return out

    def _visit(self, lane: _Lane, units: Array, values: Array, late: int) -> None:
        """Process the events of units at their synapses with a delay of `late` steps."""
        starts = lane.flat(self.starts)
        found = [np.arange(starts[unit], starts[unit + 1]) for unit in units]
        owners = np.repeat(units, [len(one) for one in found])
        values = np.repeat(values, [len(one) for one in found])
        numbers = synapses = np.concatenate(found)
        if self.order:
            synapses = lane.flat(self.order)[numbers]
        if self.longest:
            now = lane.flat(f"{self.place}/delays")[synapses] == late
            synapses, owners, values = synapses[now], owners[now], values[now]
        others = lane.flat(self.others)[synapses if self.side == "pre" else numbers]
        places = {SYNAPSE: synapses, OWN: owners, OTHER: others, ONE: np.zeros(len(synapses), int)}
        delivered = self._run(lane, self.synapses, places)
        if self.side == "pre":
            np.add.at(lane.flat(self.out), others, values * delivered)
        if self.units is not None and late == 0:
            self._run(lane, self.units, {OWN: units})

    def _run(self, lane: _Lane, event: Event, places: Mapping[int, Array]) -> Array:
        """Call an event, and write what changes; return what is delivered."""
        names, sources = self.model.arrays(event), self.sources(event)
        step = lane.view.step
        # Modulo 2^32 and not negative, so that no run is too long: traces at rest do not grow to 0 * inf.
        now = np.int64(step).astype(np.int32)
        values: dict[str, Any] = {**self.rule.numbers(self.dt), "t": np.float64(Clock(dt=self.dt).t(step))}
        for name, source in zip(names, sources, strict=True):
            array, kind = lane.flat(source.key), source.buffer
            if kind in places:
                values[name] = array[places[kind]]
            else:
                passed = (now - array[places[kind - SINCE_SYNAPSE]]).astype(np.uint32)
                values[name] = passed.astype(lane.real)
        with np.errstate(all="ignore"):
            changed, delivered = event.apply(values, lane.real)
        for name, source in zip(names, sources, strict=True):
            if name in changed:
                lane.flat(source.key)[places[source.buffer]] = changed[name]
        if event.stamped:
            of = SYNAPSE if event is self.synapses else OWN
            lane.flat(self.changed(event))[places[of]] = now
        return delivered


class _Lane:
    """The arrays of a slice in a step."""

    def __init__(self, view: View, lane: int, real: Any) -> None:
        self.view, self._lane, self.real = view, lane, real

    def flat(self, key: str) -> Array:
        """Return an array of the slice, or that of all slices, as a vector."""
        array = self.view.see(Source(key))
        return array[self._lane % len(array)].reshape(-1)
