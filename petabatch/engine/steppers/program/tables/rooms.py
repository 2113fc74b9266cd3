"""Room for operations that are compiled as they are declared: scratch, weights, links, several slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.layout import PANEL
from petabatch.kernels.cpu.program.look import LOOKS
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.look import Look
from petabatch.kernels.operations.patches import Project, Spread, Synthesize
from petabatch.kernels.operations.synapses import List, Scatter
from petabatch.kernels.operations.transport import Exchange, Join
from petabatch.network.operations import SynapticEvents
from petabatch.network.stages import row_tiles
from petabatch.network.together import abreast, kept, together


def add(to: Writer, one: Operation) -> None:
    """Add an operation that is compiled as it is declared."""
    ready = _READY.get(type(one))
    to.row(*((one, one, False) if ready is None else ready(to, one)))


Ready = tuple[Operation, Operation, bool]
"""An operation with what a program adds to it, as it was, and whether several slices make it at once."""


def _exchange(to: Writer, one: Exchange) -> Ready:
    if one.adds:  # sums are made in place
        to.inside[one.out] = one.source.key, one.before * one.row
    to.links[one.link] = one
    return one, one, to.slices > 1


def _join(to: Writer, one: Join) -> Ready:
    to.links[one.link] = one
    return one, one, to.slices > 1


def _project(to: Writer, one: Project) -> Ready:
    return one, one, _weights(to, one)


def _synthesize(to: Writer, one: Synthesize) -> Ready:
    full, several = one, _weights(to, one)
    if several and one.shared is not None:
        to.turned[one.shared.turned] = one.shared
        full = replace(full, turned=one.shared.turned)
    if one.source.lookback == 0 and one.source.key in to.active_bits:
        full = replace(full, marks=to.active_bits[one.source.key])
    if row_tiles(one) > 1:
        full = replace(full, strips=f"{one.out} by tiles")
        to.scratch[full.strips] = layout.scratch(one.geometry).strips.size
    return full, one, several


def _weights(to: Writer, one: Project | Synthesize) -> bool:
    """Keep weights in reading order; return whether several slices read them at once."""
    weights = to.shared(one.shared)
    if weights is None or to.slices == 1 or not together(one):
        return False
    p, outputs = weights.patches, weights.patches.length if one.scatter else weights.patches.features
    to.places = max(to.places, p.positions)
    to.room = max(to.room, p.positions * -(-outputs // PANEL) * PANEL)
    return True


def _spread(to: Writer, one: Spread) -> Ready:
    p = one.geometry
    to.scratch[one.padded] = p.y.padded * p.x.padded * p.channels
    return one, one, False


def _list(to: Writer, one: List) -> Ready:
    count = prod(to.graph.network.layers[one.layer].shape)
    places = max(to.graph.depth[one.layer], to.kept.get(one.layer, 0))
    to.active[one.layer] = one.out, one.values, one.ends
    # One list more than are kept: a list that does not fit at the end of the room begins at its start.
    to.scratch |= {one.out: (places + 1) * count, one.values: (places + 1) * count, one.ends: 1 + 2 * places}
    readers = [s for s in to.program.operations if isinstance(s, Scatter) and s.active == one.out]
    by_events = any(isinstance(s, SynapticEvents) and s.active == one.out for s in to.program.operations)
    several = to.slices > 1 and one.layer not in to.kept and not by_events
    several = several and all(abreast(to.graph, s) for s in readers)
    return one, one, several


def _scatter(to: Writer, one: Scatter) -> Ready:
    full = replace(one, abreast=to.slices > 1 and abreast(to.graph, one))
    if full.abreast:
        to.scratch[full.sent], to.lists[full.call] = kept(to.graph, one), 2
        to.incoming.add(one.connection)
    return full, one, full.abreast


def _look(to: Writer, one: Look) -> Ready:
    p = one.patches
    to.scratch[one.padded], to.own[one.state] = p.y.padded * p.x.padded * p.channels, (LOOKS, "i8")
    to.shared(one.shared)
    return one, one, False


_READY: Mapping[type[Operation], Callable[[Writer, Any], Ready]] = {
    Exchange: _exchange,
    Join: _join,
    List: _list,
    Look: _look,
    Project: _project,
    Scatter: _scatter,
    Spread: _spread,
    Synthesize: _synthesize,
}
"""What makes room for each type of operation that needs more than the arrays of the state."""
