"""Rows of operations that carry activities: copies, borders, patches, pooling, synapses."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from petabatch.engine.steppers.program.tables.weights import Weights, with_margin_as_units
from petabatch.engine.steppers.program.tables.writer import Writer
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.incoming import SORTED
from petabatch.kernels.cpu.layout import PANEL
from petabatch.kernels.cpu.program import table as t
from petabatch.network.operations import (
    Carry,
    Compare,
    Copy,
    Crop,
    Exchange,
    Extend,
    Fill,
    Join,
    List,
    Scatter,
)
from petabatch.network.stages import row_tiles
from petabatch.network.together import abreast, kept, together


def copy(to: Writer, one: Copy) -> None:
    """Write the row of a copy."""
    to.row(t.Op.COPY, one, to.read(one.source), ())


def fill(to: Writer, one: Fill) -> None:
    """Write the row that sets an array to a constant."""
    to.row(t.Op.FILL_DOUBLE if one.double else t.Op.FILL, one, {}, (one.value,))


def extend(to: Writer, one: Extend) -> None:
    """Write the row that pads a layer by its border rule."""
    (ny, nx, nf), value = one.shape, 0.0
    border = {"zero": t.ZERO, "mirror": t.MIRROR}.get(str(one.border), t.CONSTANT)
    if border == t.CONSTANT:
        value = float(one.border)
    sizes = dict(zip(range(t.A, t.H + 1), (ny, nx, *one.rows, *one.columns, nf, border), strict=True))
    to.row(t.Op.EXTEND, one, {**to.read(one.source), **sizes}, (value,))


def crop(to: Writer, one: Crop) -> None:
    """Write the row that cuts a layer out of its padding."""
    (ny, nx, nf), (top, left) = one.shape, one.start
    sizes = {t.A: ny, t.B: nx, t.C: top, t.D: left, t.E: one.columns, t.G: nf}
    to.row(t.Op.CROP, one, {**to.read(one.source), **sizes}, ())


def exchange(to: Writer, one: Exchange) -> None:
    """Write the row of an exchange of rows between ranks; sums are made in place."""
    if one.adds:
        to.inside[one.out] = one.source.key, one.before * one.row
    sizes = {t.B: one.before, t.C: one.rows, t.D: one.after, t.E: one.row, t.F: one.adds}
    row = {**to.read(one.source), **sizes, t.A: to.link(one), t.TOGETHER: to.slices > 1}
    to.row(t.Op.EXCHANGE, one, row, ())


def join(to: Writer, one: Join) -> None:
    """Write the row of a sum over the parts of ranks, or of the features or rows of all."""
    sizes = {t.B: one.size, t.C: one.block, t.TOGETHER: to.slices > 1}
    row = {**to.read(one.source), **sizes, t.A: to.link(one)}
    to.row(t.Op.JOIN, one, row, ())


def compare(to: Writer, one: Compare) -> None:
    """Write the row that compares the features of each position."""
    row = {**to.read(one.source), t.A: one.features, t.B: one.copies}
    to.row(t.Op.BACKGROUND if one.copies else t.Op.LARGEST, one, row, ())


def carry(to: Writer, one: Carry) -> None:
    """Write the row of a connection with patches or windows."""
    p = with_margin_as_units(one.patches)
    row = {**to.read(one.source), t.A: to.geometry(p)}
    if not one.weights:
        row |= {t.B: one.method == "max"}
        if one.scatter:
            padded = f"{one.out} padded"
            to.scratch[padded] = p.y.padded * p.x.padded * p.channels
            row |= {t.C: to.array(padded)}
        to.row(t.Op.SPREAD if one.scatter else t.Op.POOL, one, row, (one.factor,))
        return
    if p.shared:
        weights = Weights(one.weights, p)
        to.weights[weights.names] = weights
        row |= {t.B: to.array(weights.names[one.scatter])}
        if to.slices > 1 and together(one):
            row |= {t.TOGETHER: 1, t.D: _together(to, one, weights)}
    else:
        row |= {t.C: to.array(one.weights)}
    if one.scatter and one.source.lookback == 0 and one.source.key in to.active_bits:
        row |= {t.F: to.array(to.active_bits[one.source.key])}
    if one.scatter and row_tiles(one) > 1:
        tiles = f"{one.out} by tiles"
        to.scratch[tiles] = layout.scratch(p).strips.size
        row |= {t.E: to.array(tiles)}
    to.row(t.Op.SYNTHESIZE if one.scatter else t.Op.PROJECT, one, row, ())


def list_active(to: Writer, one: List) -> None:
    """Write the row that lists the active units of a layer, and make room for its lists."""
    units, values, ends = _lists(one.out)
    count = prod(to.graph.network.layers[one.layer].shape)
    places = max(to.graph.depth[one.layer], to.kept.get(one.layer, 0))
    to.active[one.layer] = units, values, ends
    # One list more than are kept: a list that does not fit at the end of the room begins at its start.
    to.scratch |= {units: (places + 1) * count, values: (places + 1) * count, ends: 1 + 2 * places}
    row = {t.A: to.array(values), t.B: to.array(ends)}
    readers = [s for s in to.program.operations if isinstance(s, Scatter) and s.active == one.out]
    if to.slices > 1 and one.layer not in to.kept and all(abreast(to.graph, s) for s in readers):
        row |= {t.TOGETHER: 1}
    to.row(t.Op.LIST, replace(one, out=units), {**to.read(one.source), **row}, ())


def scatter(to: Writer, one: Scatter) -> None:
    """Write the row of a connection of single synapses."""
    keys = [f"connections/{one.connection}/{name}" for name in ("starts", "targets", "weights")]
    columns = (t.B, t.C, t.D, t.IN, t.E, t.F)
    row = dict(zip(columns, map(to.array, (*keys, *_lists(one.active))), strict=True))
    delays = f"connections/{one.connection}/delays"
    if delays in to.graph.variables:
        row |= {t.G: to.array(delays)}
    if to.slices > 1 and abreast(to.graph, one):
        room, call = f"{one.out}, of slices side by side", f"scratch/{one.connection}, call"
        to.scratch[room], to.lists[call] = kept(to.graph, one), 2
        to.incoming.add(one.connection)
        row |= {t.TOGETHER: 1, t.H: to.array(one.source.key), t.HISTORY: to.array(room)}
        columns = (t.SPARE, t.LISTS, t.PARTS, t.KEPT, t.TALLIES, t.FLOATS)
        row |= dict(zip(columns, map(to.array, (call, *incoming(one.connection))), strict=True))
    to.row(t.Op.SCATTER, one, {t.LOOKBACK: one.source.lookback, t.A: one.positions, **row}, ())


def incoming(connection: str) -> tuple[str, ...]:
    """Return the arrays of the synapses of a connection by post unit, in the order of `SORTED`."""
    return tuple(f"scratch/{connection} by post unit, {name}" for name in SORTED)


def _lists(active: str) -> tuple[str, str, str]:
    """Return the arrays of lists: units, their activities, and where each list begins and ends."""
    return active, f"{active}, values", f"{active}, ends"


def _together(to: Writer, one: Carry, weights: Weights) -> int:
    """Make room for an operation on several slices at once; return its mark in the row."""
    p, outputs = weights.patches, weights.patches.length if one.scatter else weights.patches.features
    to.places = max(to.places, p.positions)
    to.room = max(to.room, p.positions * -(-outputs // PANEL) * PANEL)
    if not one.scatter:
        return 1
    to.turned[weights.turned] = weights
    return to.array(weights.turned)
