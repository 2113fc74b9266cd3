"""Observers of the lanes of a group: one for neighbours that are observed alike, in one call."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby, pairwise

from petabatch.engine.deliveries import Deliveries
from petabatch.engine.lane import Lane
from petabatch.engine.observer import Observer

_UNITS = 1 << 20
"""Units of all slices of an observer at most: what probes make of them should stay in the cache."""


def observers(lanes: Sequence[Lane]) -> Iterator[Observer]:
    """Yield the observers of lanes, of each slice one; no recorded bit depends on which are together."""
    for neighbours in neighbouring(lanes):
        for _, alike in groupby(neighbours, _seen):
            some = list(alike)
            size = _together(some[0])
            for first in range(0, len(some), size):
                yield _of(some[first : first + size])


def neighbouring(lanes: Sequence[Lane]) -> Iterator[Sequence[Lane]]:
    """Yield parts of lanes in which slices follow each other."""
    begin = 0
    for end, (before, after) in enumerate(pairwise(lanes), 1):
        if before.lanes.stop != after.lanes.start:
            yield lanes[begin:end]
            begin = end
    yield lanes[begin:]


def _seen(lane: Lane) -> Hashable:
    """Return what lanes that are observed in one call have in common."""
    network = lane.plan.graph.network
    return id(network.probes), network.run.dt, frozenset(lane.stepper.recorded)


def _together(lane: Lane) -> int:
    """Return how many lanes like this one are observed in one call."""
    network, by_steps = lane.plan.graph.network, lane.stepper.recorded
    if lane.features.group.size > 1 or lane.backend.peers(lane.lanes) is not None:
        return 1
    ever = ((n, one) for n, one in enumerate(lane.plan.recordings) if one.next(-1) is not None)
    here = [one for n, one in ever if n not in by_steps]
    events = any(one.stream.events for one in here)
    for key in {one.key for one in here}:
        if not key.startswith("probes/"):
            continue
        probe = network.probes[key.split("/")[1]]
        # An error of one that is told of events here comes after these: of no other slice, or they would be
        # recorded again.
        told = events and probe.counts is not None
        if not probe.slicewise or probe.connections() or told:
            return 1
    units = sum(math.prod(layer.shape) for layer in network.layers.values())
    return max(1, _UNITS // (units * len(lane.slices)))


def _of(lanes: Sequence[Lane]) -> Observer:
    first, last = lanes[0], lanes[-1]
    if first is last:
        return first.observer
    whole, backend = slice(first.lanes.start, last.lanes.stop), first.backend
    arrays = backend.arrays.lane(whole)
    deliveries = Deliveries(first.plan.graph, first.kernels, arrays, {}, first.features, whole.start)
    slices = [number for lane in lanes for number in lane.slices]
    steppers = [lane.stepper for lane in lanes]
    return Observer(first.plan, deliveries, steppers, first.recorder, whole, backend, first.readers, slices)
