"""Updates of layers, in the operations that they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from petabatch.engine.steppers.program.tables.rules import NOISES, NORMS, RESCALES, cell
from petabatch.engine.steppers.program.tables.writer import TRAIN, CallAt, Writer
from petabatch.kernels import transfer
from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.rows import ARRAYS, row_address
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.updates import (
    Accelerate,
    Bins,
    CountEvents,
    Draw,
    Drop,
    Events,
    FollowEnergy,
    Noise,
    Polyline,
    Rescale,
    RunRow,
    Shots,
    Spike,
    Unpool,
    UpdateUnits,
)
from petabatch.kernels.rows import BEFORE
from petabatch.network.graph import Graph
from petabatch.network.operations import Call, Control, Update
from petabatch.spec.part_errors import calling
from petabatch.spec.rows import RowFunction


def update(to: Writer, one: Update) -> None:
    """Write the rows of the update of a layer: its input, its rule, and what follows the rule."""
    rule, key = one.rule, f"layers/{one.layer}"
    special = _SPECIAL.get(rule.name)
    if rule.row is not None:
        _row_function(to, one, rule.row)
        _noise(to, one)
    elif rule.adaptive is not None:
        _accelerate(to, one)
    elif special is not None:
        special(to, one)
    elif rule.train is not None:
        to.trains[one.layer] = rule.train
        times, units = f"{TRAIN}{one.layer}/times", f"{TRAIN}{one.layer}/units"
        to.row(Events(one.out, times, units, to.graph.network.run.dt), one)
    else:
        potential = rule.potential or next(iter(rule.variables), "")
        compiled = UpdateUnits(
            one.out,
            one.sources,
            potential=f"{key}/{potential}" if potential else "",
            before=f"{key}/{rule.previous}" if rule.previous else "",
            scale=f"{key}/time_scale" if rule.scale is not None else "",
            cell=cell(rule, to.graph.network.run.dt, to.real),
            centre=rule.numbers.get("centre", 0.0),
            slope=rule.numbers.get("slope", 1.0),
        )
        to.row(compiled, one)
        _after(to, one)


def _after(to: Writer, one: Update) -> None:
    """Write what follows a rule that works unit by unit."""
    n, name = one.rule.numbers, one.rule.name
    if name in RESCALES:
        given = (n[each] for each in ("low", "high", "mean", "std"))
        to.row(Rescale(one.out, RESCALES[name], int(n["together"]), *given), one)
    if name == "bins":
        given = (n[each] for each in ("low", "high", "width", "outside", "without_zero"))
        to.row(Bins(one.out, to.graph.network.layers[one.layer].shape[2], *given), one)
    _noise(to, one)
    if isinstance(one.rule.curve, transfer.Polyline):
        _polyline(to, one, one.rule.curve)


def _buffer(one: Update | Call, number: int) -> list[Source]:
    """Return the sources of a buffer."""
    return [replace(source, buffer=0) for source in one.sources or () if source.buffer == number]


def _unpool(to: Writer, one: Update) -> None:
    units, places = (to.gather(one, _buffer(one, buffer), f", {buffer}") for buffer in (0, 1))
    n, (_, *shape) = one.rule.numbers, to.graph.network.layers[one.layer].shape
    windows = int(n["rows"]), int(n["columns"])
    to.row(Unpool(one.out, Source(units), places, *windows, (shape[0], shape[1])), one)


def _noise(to: Writer, one: Update) -> None:
    if one.rule.name not in NOISES:
        return
    n, tiling, first = one.rule.numbers, to.graph.tiling, 0
    if one.layer in tiling.layers:
        first = tiling.part.number * math.prod(to.graph.network.layers[one.layer].shape)
    pool = to.stream(one.layer)
    match one.rule.name:
        case "gaussian_noise":
            to.row(Noise(one.out, pool, first, n["mean"], n["std"]), one)
        case "dropout":
            to.row(Drop(one.out, pool, first, n["probability"]), one)
        case _:
            to.row(CountEvents(one.out, pool, n["rate"], to.graph.network.run.dt), one)


def _polyline(to: Writer, one: Update, curve: transfer.Polyline) -> None:
    corners, key = f"scratch/corners of {one.layer}", f"layers/{one.layer}/{one.rule.potential or 'A'}"
    to.constants[corners] = tuple(chain(*curve.corners)), 1
    to.row(Polyline(one.out, Source(key), corners, curve.below), one)


def _spike(to: Writer, one: Update) -> None:
    n, dt, drives = one.rule.numbers, to.graph.network.run.dt, []
    for channel in range(3):
        drives.append(to.gather(one, _buffer(one, channel), f", channel {channel}"))
        size, rate = n[f"noise {channel}"], n[f"noise_rate {channel}"]
        if size:
            chance = min(1.0, rate * dt / 1000)
            shots = Shots(drives[-1], to.stream(one.layer), channel, size, chance)
            to.row(shots, replace(one, out=drives[-1]))
    for channel in (3, 4):
        sources = _buffer(one, channel)
        drives.append(to.gather(one, sources, f", channel {channel}") if sources else "")
    state = (f"layers/{one.layer}/{name}" for name in one.rule.variables)
    names = (
        "exc", "inh", "inh_b", "gap", "through", "potential", "threshold", "of_exc", "of_inh", "of_inh_b",
    )  # fmt: skip
    arrays: dict[str, Any] = dict(zip(names, (*drives, *state), strict=True))
    compiled = Spike(
        one.out,
        **arrays,
        method=int(n["method"]),
        dt=dt,
        tau=n["tau"],
        rest=n["rest"],
        base=n["threshold"],
        recovery=math.exp(-dt / n["recovery"]),
        fatigue=n["fatigue"],
        after=n["after"],
        largest=n["largest"],
        reversal=(n["reversal 0"], n["reversal 1"], n["reversal 2"]),
        decay=(math.exp(-dt / n["decay 0"]), math.exp(-dt / n["decay 1"]), math.exp(-dt / n["decay 2"])),
    )
    to.row(compiled, one)


_SPECIAL: Mapping[str, Callable[[Writer, Update], None]] = {"conductance_lif": _spike, "max_unpool": _unpool}
"""Rules that are operations of their own."""


def _row_function(to: Writer, one: Update, function: RowFunction) -> None:
    to.row_functions[one.layer] = function
    form, key = function.form, f"layers/{one.layer}"
    shape, draws = to.graph.network.layers[one.layer].shape, []
    for name, kind in zip(form.draws, function.draws, strict=True):
        draws.append(f"scratch/{one.layer} {name}")
        to.scratch[draws[-1]] = math.prod(shape)
        drawn = Draw(draws[-1], to.stream(f"{one.layer}/{name}"), kind == "normal")
        to.row(drawn, replace(one, out=draws[-1]))
    state = [Source(one.out, 1) if name == BEFORE else Source(f"{key}/{name}") for name in form.variables]
    table, buffers = f"scratch/{one.layer} addresses", f"scratch/{one.layer} buffers"
    to.lists[table], to.scratch[buffers] = ARRAYS + form.arrays, (form.buffers + 2) * u.CHUNK
    with calling(to.graph.network.layers[one.layer], f"layers.{one.layer}"):
        place = row_address(function.function, form, to.real)
    compiled = RunRow(
        one.out,
        [_buffer(one, buffer) for buffer in range(form.buffers)],
        [*state, *map(Source, (*draws, one.out))],
        place,
        table,
        buffers,
        BEFORE in form.variables,
        function.numbers(to.graph.network.run.dt),
    )
    to.row(compiled, one)


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


def _accelerate(to: Writer, one: Update) -> None:
    match one.sources:
        case [Source(factor=1) as drive] if drive.key != one.out:  # which is written meanwhile
            pass
        case sources:
            drive = Source(to.gather(one, sources))
    assert one.rule.adaptive is not None
    key, (step, age) = f"layers/{one.layer}", one.rule.adaptive
    if one.sums is not None:
        to.links[one.sums.link] = one.sums
    compiled = Accelerate(
        one.out,
        drive,
        before=f"{key}/{one.rule.potential}",
        drive_before=f"{key}/{one.rule.previous}",
        step=f"{key}/{step}",
        age=f"{key}/{age}",
        sums=one.sums.link if one.sums is not None else "",
        cell=cell(one.rule, 1, to.real),
    )
    to.row(compiled, one)


def control(to: Writer, one: Control) -> None:
    """Write the row that adapts the time scale of a layer."""
    terms = [Source(f"layers/{term.layer}/A", 1, term.coefficient, NORMS[term.norm]) for term in one.terms]
    ceiling, before = (f"layers/{one.layer}/{name}" for name in ("time_scale_max", "energy_before"))
    to.row(FollowEnergy(one.out, terms, ceiling, before, one.scale), one)


def call(to: Writer, one: Call) -> None:
    """Write the rows that sum up the input of an interpreted update, and note the update."""
    buffers = range(one.buffers if one.sources is not None else 0)
    drives = [to.gather(one, _buffer(one, buffer), f", buffer {buffer}") for buffer in buffers]
    to.calls.append(CallAt(len(to.rows), one, tuple(drives)))
