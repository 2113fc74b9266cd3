"""Rows of operations that update layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from petabatch.engine.steppers.program.tables.rules import NOISES, NORMS, RESCALES, constants
from petabatch.engine.steppers.program.tables.writer import (
    BUFFERS,
    NOTHING,
    TRAIN,
    WORDS,
    CallAt,
    Writer,
)
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.rows import ARRAYS, row_address
from petabatch.kernels.rows import BEFORE
from petabatch.network.graph import Graph
from petabatch.network.operations import (
    Call,
    Control,
    Operation,
    Source,
    Update,
)
from petabatch.spec.part_errors import calling
from petabatch.spec.rows import RowFunction


def update(to: Writer, one: Update) -> None:
    """Write the rows of the update of a layer: its input, its rule, and what follows the rule."""
    rule, key = one.rule, f"layers/{one.layer}"
    if rule.row is not None:
        _row_function(to, one, rule.row)
        _noise(to, one)
        return
    first, last = to.summed(one.sources)
    potential = rule.potential or next(iter(rule.variables), "")
    V, before = (to.array(f"{key}/{n}" if n else NOTHING) for n in (potential, rule.previous))
    row = {t.A: first, t.B: last, t.D: V, t.E: before, t.F: to.array(BUFFERS)}
    if rule.adaptive is not None:
        _accelerate(to, one, row)
        return
    if rule.name == "conductance_lif":
        _spike(to, one, row)
        return
    if rule.name == "max_unpool":
        _unpool(to, one, row)
        return
    if rule.train is not None:
        to.trains[one.layer] = rule.train
        row = {t.A: to.array(f"{TRAIN}{one.layer}/times"), t.B: to.array(f"{TRAIN}{one.layer}/units")}
        to.row(t.Op.EVENTS, one, row, (to.graph.network.run.dt,))
        return
    if rule.scale is not None:
        row |= {t.G: to.array(f"{key}/time_scale")}
    to.row(t.Op.UPDATE, one, row, constants(rule, to.graph.network.run.dt))
    if rule.name in RESCALES:
        n = rule.numbers
        row = {t.A: RESCALES[rule.name], t.B: int(n["together"])}
        to.row(t.Op.RESCALE, one, row, [n[name] for name in ("low", "high", "mean", "deviation")])
    if rule.name == "bins":
        n = rule.numbers
        numbers = [n[name] for name in ("low", "high", "width", "outside", "without_zero")]
        to.row(t.Op.BINS, one, {t.A: to.graph.network.layers[one.layer].shape[2]}, numbers)
    _noise(to, one)
    if rule.vertices:
        _polyline(to, one)


def _unpool(to: Writer, one: Update, row: dict[int, int]) -> None:
    drives = [
        to.gather(one, row, [replace(s, buffer=0) for s in one.sources if s.buffer == buffer], f", {buffer}")
        for buffer in (0, 1)
    ]
    n, (_, nx, nf) = one.rule.numbers, to.graph.network.layers[one.layer].shape
    sizes = {t.B: int(n["rows"]), t.C: int(n["columns"]), t.D: nx, t.E: nf}
    to.row(t.Op.UNPOOL, one, {**to.read(Source(drives[0])), t.A: to.array(drives[1]), **sizes}, ())


def _noise(to: Writer, one: Update) -> None:
    if one.rule.name in NOISES:
        row = dict(zip((t.A, t.B, t.C), (to.stream(one.layer), *map(to.array, WORDS)), strict=True))
        dt, tiling = to.graph.network.run.dt, to.graph.tiling
        if one.layer in tiling.layers:
            row |= {t.D: tiling.part.number * math.prod(to.graph.network.layers[one.layer].shape)}
        to.row(NOISES[one.rule.name], one, row, [*one.rule.numbers.values(), dt])


def _polyline(to: Writer, one: Update) -> None:
    vertices, key = f"scratch/vertices of {one.layer}", f"layers/{one.layer}/{one.rule.potential or 'A'}"
    corners = [*one.rule.vertices, (np.inf, 0.0)]
    slopes = [(b - a) / (w - v) if w > v else 0.0 for (v, a), (w, b) in pairwise(corners)]
    slopes[-1] = one.rule.slopes[1]
    to.constants[vertices] = (
        tuple(x for (v, a), slope in zip(one.rule.vertices, slopes, strict=True) for x in (v, a, slope)),
        1,
    )
    row = {**to.read(Source(key)), t.A: to.array(vertices)}
    to.row(t.Op.POLYLINE, one, row, (one.rule.slopes[0],))


def _spike(to: Writer, one: Update, row: dict[int, int]) -> None:
    n, dt, drives = one.rule.numbers, to.graph.network.run.dt, []
    for channel in range(3):
        sources = [replace(s, buffer=0) for s in one.sources if s.buffer == channel]
        drives.append(to.gather(one, row, sources, f", channel {channel}"))
        size, rate = n[f"noise {channel}"], n[f"noise_rate {channel}"]
        if size:
            words = {t.B: to.array(WORDS[0]), t.C: to.array(WORDS[1]), t.D: channel}
            shots = replace(one, out=drives[-1])
            words[t.A] = to.stream(one.layer)
            to.row(t.Op.SHOTS, shots, words, (size, min(1.0, rate * dt / 1000)))
    gaps = []
    for channel in (3, 4):
        sources = [replace(s, buffer=0) for s in one.sources if s.buffer == channel]
        gaps.append(to.gather(one, row, sources, f", channel {channel}") if sources else NOTHING)
    numbers = (n["method"], dt, n["tau"], n["rest"], n["threshold"], math.exp(-dt / n["recovery"]))
    reversal = (n[f"reversal {channel}"] for channel in range(3))
    decay = (math.exp(-dt / n[f"decay {channel}"]) for channel in range(3))
    names = [*drives, *(f"layers/{one.layer}/{name}" for name in one.rule.variables)]
    arrays = [to.array(name) for name in names]
    row = dict(zip((t.A, t.B, t.C, t.IN, t.D, t.E, t.F, t.G), arrays, strict=True))
    row |= dict(zip((t.H, t.HISTORY), map(to.array, gaps), strict=True))
    to.row(t.Op.SPIKE, one, row, (*numbers, n["fatigue"], n["after"], n["largest"], *reversal, *decay))


def _row_function(to: Writer, one: Update, function: RowFunction) -> None:
    to.row_functions[one.layer] = function
    form, key = function.form, f"layers/{one.layer}"
    shape, draws = to.graph.network.layers[one.layer].shape, []
    for name, kind in zip(form.draws, function.draws, strict=True):
        draws.append(f"scratch/{one.layer} {name}")
        to.scratch[draws[-1]] = math.prod(shape)
        stream = {t.A: to.stream(f"{one.layer}/{name}"), t.B: kind == "normal"}
        drawn = replace(one, out=draws[-1])
        to.row(t.Op.DRAW, drawn, {**stream, t.C: to.array(WORDS[0])}, ())
    ends, first = {}, len(to.sources)
    for buffer in range(form.buffers):
        sources = [replace(source, buffer=0) for source in one.sources if source.buffer == buffer]
        ends[t.F + buffer] = to.summed(sources)[1]
    state = [Source(one.out, 1) if name == BEFORE else Source(f"{key}/{name}") for name in form.variables]
    _, last = to.summed([*state, *map(Source, (*draws, one.out))])
    room, buffers = f"scratch/{one.layer} addresses", f"scratch/{one.layer} buffers"
    to.lists[room], to.scratch[buffers] = ARRAYS + form.arrays, (form.buffers + 2) * u.CHUNK
    with calling(to.graph.network.layers[one.layer], f"layers.{one.layer}"):
        place = row_address(function.function, form)
    row = {t.A: first, t.B: last, t.C: place, t.D: to.array(room), t.E: form.buffers, **ends}
    row |= {t.IN: to.array(buffers), t.LOOKBACK: BEFORE in form.variables}
    to.row(t.Op.ROW, one, row, function.numbers(to.graph.network.run.dt))


def numbers_of_row(
    graph: Graph, known: Operation, one: Operation
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return the numbers of the last row of an update, and the factors of its first sources.

    None unless it is by a row function, and differs from the `known` update in these alone.
    """
    if not isinstance(known, Update) or not isinstance(one, Update):
        return None
    row = one.rule.row
    same = (one.out, one.layer, one.when, one.rule) == (known.out, known.layer, known.when, known.rule)
    if row is None or one.rule.name in NOISES or not same:
        return None
    if [(s.key, s.lookback, s.buffer) for s in one.sources] != [
        (s.key, s.lookback, s.buffer) for s in known.sources
    ]:
        return None
    factors = [s.factor for buffer in range(row.form.buffers) for s in one.sources if s.buffer == buffer]
    return row.numbers(graph.network.run.dt), factors


def _accelerate(to: Writer, one: Update, row: dict[int, int]) -> None:
    match one.sources:
        case [Source(factor=1) as drive] if drive.key != one.out:  # which is written meanwhile
            pass
        case sources:
            drive = Source(to.gather(one, row, sources))
    assert one.rule.adaptive is not None
    names = (one.rule.potential, one.rule.previous, *one.rule.adaptive)
    arrays = [to.array(f"layers/{one.layer}/{name}") for name in names]
    row = dict(zip((t.A, t.B, t.D, t.E), arrays, strict=True)) | {t.C: to.array(BUFFERS)}
    row |= {t.F: to.link(one.sums)} if one.sums is not None else {}
    to.row(t.Op.ACCELERATE, one, to.read(drive) | row, constants(one.rule, 1))


def control(to: Writer, one: Control) -> None:
    """Write the row that adapts the time scale of a layer."""
    first = len(to.sources)
    for term in one.terms:
        to.sources.append((to.array(f"layers/{term.layer}/A"), 1, NORMS[term.norm]))
        to.factors.append(term.coefficient)
    others = (to.array(f"layers/{one.layer}/{n}") for n in ("time_scale_max", "energy_before"))
    kind, *growth = one.scale
    row = dict(zip((t.A, t.B, t.C, t.D, t.E), (*others, first, len(to.sources), kind), strict=True))
    to.row(t.Op.CONTROL, one, row, growth)


def call(to: Writer, one: Call) -> None:
    """Write the rows that sum up the input of an interpreted update, and note the update."""
    drives = []
    for buffer in range(one.buffers if one.sources is not None else 0):
        sources = [replace(source, buffer=0) for source in one.reads if source.buffer == buffer]
        row = {t.F: to.array(BUFFERS)}
        drives.append(to.gather(one, row, sources, f", buffer {buffer}"))
    to.calls.append(CallAt(len(to.rows), one, tuple(drives)))
