"""The program of a step in tables, for its compiled loop: arrays by number, and where they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from petabatch.geometry import Axis, Patches
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.layout import DRIVE_BLOCK, PANEL
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.program import whole as w
from petabatch.kernels.cpu.program.lazy.layout import KEPT_NUMBERS, rooms
from petabatch.kernels.cpu.program.team import ALL
from petabatch.kernels.cpu.rows import ARRAYS, row_address
from petabatch.kernels.cpu.rules import RULES, rule_number
from petabatch.kernels.cpu.sizes import WORD
from petabatch.kernels.rules import cell
from petabatch.network.graph import Graph
from petabatch.network.operations import (
    Call,
    Carry,
    Control,
    Copy,
    Crop,
    Drive,
    Extend,
    Fill,
    LazyUpdate,
    Operation,
    Program,
    Scatter,
    Source,
    Update,
)
from petabatch.network.stages import find_stages, row_tiles, side_by_side
from petabatch.network.together import together
from petabatch.spec.compiled import CompiledRule, Term
from petabatch.spec.part_errors import calling
from petabatch.spec.rows import RowFunction

_RESCALE = {
    "rescale_range": w.RANGE,
    "rescale_standard": w.STANDARD,
    "rescale_length": w.LENGTH,
    "rescale_softmax": w.SOFTMAX,
}
_NOISES = {"gaussian_noise": t.Op.NOISE, "dropout": t.Op.DROP}
_RULES = {**RULES, **u.RULES, **dict.fromkeys((*_RESCALE, *_NOISES), u.LINEAR)}
"""All rules by name. A layer that is rescaled as a whole, or noisy, first takes over its input."""
NORMS = {"squares": w.SQUARES, "sizes": w.SIZES, "count": w.COUNT}
NOTHING = "scratch/"
"""The empty array, number 0."""
GEOMETRY = ("window", "drive", "active", "values", "ends", "places", "vectors")
"""Scratch of a geometry, besides its strips."""
WORDS = ("scratch/random words", "scratch/more random words")
BUFFERS = "scratch/buffers"
_INPUT = "scratch/input of "
_CHUNKS = 16
"""Chunks of an UPDATE in an item, some microseconds."""
Parts = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""The parts of an operation that threads share, and those after them."""


@dataclass(frozen=True)
class Margined(Axis):
    """An axis whose margin is made of units like others."""

    beyond: int = 0

    def start(self, unit: int) -> int:
        """Return the first fine index of the patch of a unit, the first of the margin being 0."""
        return super().start(unit - self.beyond)


def with_margin_as_units(p: Patches) -> Patches:
    """Return the geometry in which units beyond the edge count as units."""
    if not (p.y.margin or p.x.margin):
        return p
    y, x = (Margined(a.units, a.fine, a.stride, a.size, 0, a.margin) for a in (p.y, p.x))
    return replace(p, y=y, x=x)


@dataclass(frozen=True)
class Weights:
    """Weights seen from one end: an array `[1, G, nf, K]` of a slice in a geometry."""

    key: str
    patches: Patches

    @property
    def names(self) -> tuple[str, str]:
        """The arrays of panels and groups."""
        return f"scratch/panels {self.key} {self._shape}", f"scratch/groups {self.key} {self._shape}"

    @property
    def rows(self) -> tuple[str, str]:
        """The arrays of whole rows and their lengths, as lazy evaluation reads them."""
        return f"scratch/rows {self.key} {self._shape}", f"scratch/norms {self.key} {self._shape}"

    @property
    def turned(self) -> str:
        """The array of panels over the other end."""
        return f"scratch/turned {self.key} {self._shape}"

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.patches.features, self.patches.y.size, self.patches.x.size, self.patches.channels)


class CallAt(NamedTuple):
    """An update in the interpreter."""

    row: int
    """The first row after it."""
    call: Call
    drives: tuple[str, ...]
    """The arrays of its input, one for each buffer; none where it gathers its input itself."""


@dataclass(frozen=True)
class Measure(Operation):
    """A norm of a layer's activity, for a probe."""

    @property
    def _text(self) -> str:
        return "norm"


class Tables:
    """A program in tables, for any slice of any network with this graph; arrays by number."""

    def __init__(self, graph: Graph, program: Program, measured: Sequence[Term], slices: int = 1) -> None:
        """Make the tables; `slices` are advanced in one call at most."""
        self.graph, self.program, self.slices = graph, program, slices
        self.places, self.room = 0, 0
        """Positions of a slice that are computed with those of others, and floats of their results."""
        self.turned: dict[str, Weights] = {}
        """Panels of weights that are read from the other end, by their name."""
        self._like: Tables | None = None
        self.numbers_of: dict[str, int] = {NOTHING: 0}
        self.scratch, self.constants = dict(program.scratch), dict(program.constants)
        self.lists: dict[str, int] = {}
        """Words of each scratch array of lists."""
        self.geometries: list[Patches] = []
        self.weights: dict[tuple[str, str], Weights] = {}
        self.own: dict[str, tuple[int, str]] = {}
        """Length and type of each array that a slice keeps from run to run, but need not."""
        self.drives: list[list[int]] = []
        self.read_by_rows: set[tuple[str, str]] = set()
        """The names of weights that lazy evaluation reads."""
        self.lazy_rows: list[int] = []
        """The rows of codes that are lazily evaluated, in the order of `program.lazy`."""
        self.snapshots_of: dict[str, list[str]] = {}
        """By lazily evaluated code, the arrays of a slice that belong to the present weights."""
        self.norms_of: dict[str, Weights] = {}
        """Of these arrays, the norms of weights of each unit's own."""
        self.rows: list[list[int]] = []
        self.labels: list[str] = []
        """What each row is called in a profile."""
        self.numbers: list[list[float]] = []
        self.sources: list[tuple[int, int, int]] = []
        self.factors: list[float] = []
        self.controlled = frozenset(one.layer for one in program.operations if isinstance(one, Control))
        """The layers whose time scale the program adapts."""
        self.calls: list[CallAt] = []
        """What the interpreter does."""
        self.row_functions: dict[str, RowFunction] = {}
        """By layer."""
        self.scratch[BUFFERS] = 2 * u.CHUNK
        spans, parts = [], []
        for operation in program.operations:
            begin = len(self.rows)
            getattr(self, f"_{type(operation).__name__.lower()}")(operation)
            spans.append((begin, len(self.rows)))
            parts.append(self._parts(operation, *spans[-1]))
        begin = len(self.rows)
        for column, term in enumerate(measured):
            row = {t.OUT: self._array(f"layers/{term.layer}/A"), t.A: column, t.B: NORMS[term.norm]}
            self._row(t.Op.MEASURE, Measure(f"layers/{term.layer}/A"), row, ())
        self.items = _items(spans, parts, find_stages(graph, program), (begin, len(self.rows)))
        """What threads that make the steps of a slice together take, see `kernels/cpu/program/team.py`."""
        self.worth_sharing = bool(side_by_side(graph, program))
        """Whether there is enough to do side by side."""

    @property
    def workspace_of(self) -> Tables:
        """The program whose workspaces this one uses: its own, or another of the same structure."""
        return self._like or self

    def share_workspace(self, other: Tables) -> bool:
        """Use the workspaces of another program if it differs in numbers alone; return whether it does."""
        if self._structure() != other._structure():
            return False
        self._like = other
        return True

    def _structure(self) -> tuple[object, ...]:
        return (
            self.rows, self.sources, self.drives, self.scratch, self.constants, self.lists, self.geometries,
            self.weights, self.turned, self.numbers_of, self.own, self.read_by_rows, self.slices,
            [(at.row, at.call.layer, at.drives) for at in self.calls],
        )  # fmt: skip

    def _array(self, key: str) -> int:
        return self.numbers_of.setdefault(key, len(self.numbers_of))

    def _row(self, op: t.Op, operation: Operation, row: Mapping[int, int], numbers: Sequence[float]) -> None:
        when, columns = operation.when, [0] * t.COLUMNS
        columns[t.CODE], columns[t.PERIOD], columns[t.OFFSET] = op, when.period, when.offset
        columns[t.STANDS], columns[t.WINDOW] = when.stands, when.window
        columns[t.OUT] = self._array(operation.out)
        for column, value in row.items():
            columns[column] = value
        self.rows.append(columns)
        self.labels.append(operation.label)
        self.numbers.append([*numbers, *[0.0] * (t.NUMBERS - len(numbers))])

    def _read(self, source: Source) -> dict[int, int]:
        return {t.IN: self._array(source.key), t.LOOKBACK: source.lookback}

    def _summed(self, sources: Sequence[Source]) -> tuple[int, int]:
        first = len(self.sources)
        self.sources += [(self._array(s.key), s.lookback, s.buffer) for s in sources]
        self.factors += [s.factor for s in sources]
        return first, len(self.sources)

    def _geometry(self, p: Patches) -> int:
        if p not in self.geometries:
            self.geometries.append(p)
            for name in (*GEOMETRY, "strips", "offsets"):
                self._array(f"scratch/{name} {self.geometries.index(p)}")
        return self.geometries.index(p)

    def _call(self, one: Call) -> None:
        drives = []
        for buffer in range(one.buffers if one.sources is not None else 0):
            heard = [replace(source, buffer=0) for source in one.reads if source.buffer == buffer]
            row = {t.F: self._array(BUFFERS)}
            drives.append(self._gather(one, row, heard, f", buffer {buffer}"))
        self.calls.append(CallAt(len(self.rows), one, tuple(drives)))

    def _copy(self, one: Copy) -> None:
        self._row(t.Op.COPY, one, self._read(one.source), ())

    def _fill(self, one: Fill) -> None:
        self._row(t.Op.FILL_DOUBLE if one.double else t.Op.FILL, one, {}, (one.value,))

    def _extend(self, one: Extend) -> None:
        (ny, nx, nf), value = one.shape, 0.0
        border = {"zero": t.ZERO, "mirror": t.MIRROR}.get(str(one.border), t.CONSTANT)
        if border == t.CONSTANT:
            value = float(one.border)
        sizes = dict(zip(range(t.A, t.H + 1), (ny, nx, *one.rows, *one.columns, nf, border), strict=True))
        self._row(t.Op.EXTEND, one, {**self._read(one.source), **sizes}, (value,))

    def _crop(self, one: Crop) -> None:
        (ny, nx, nf), (top, left) = one.shape, one.start
        sizes = {t.A: ny, t.B: nx, t.C: top, t.D: left, t.E: one.columns, t.G: nf}
        self._row(t.Op.CROP, one, {**self._read(one.source), **sizes}, ())

    def _carry(self, one: Carry) -> None:
        p = with_margin_as_units(one.patches)
        row = {**self._read(one.source), t.A: self._geometry(p)}
        if not one.weights:
            row |= {t.B: one.method == "max"}
            if one.scatter:
                padded = f"{one.out} padded"
                self.scratch[padded] = p.y.padded * p.x.padded * p.channels
                row |= {t.C: self._array(padded)}
            self._row(t.Op.SPREAD if one.scatter else t.Op.POOL, one, row, (one.factor,))
            return
        if p.shared:
            weights = Weights(one.weights, p)
            self.weights[weights.names] = weights
            row |= {t.B: self._array(weights.names[one.scatter])}
            if self.slices > 1 and together(one):
                row |= {t.D: self._together(one, weights)}
        else:
            row |= {t.C: self._array(one.weights)}
        if one.scatter and row_tiles(one) > 1:
            tiles = f"{one.out} by tiles"
            self.scratch[tiles] = layout.scratch(p).strips.size
            row |= {t.E: self._array(tiles)}
        self._row(t.Op.SYNTHESIZE if one.scatter else t.Op.PROJECT, one, row, ())

    def _parts(self, one: Operation, begin: int, end: int) -> Parts:
        """Return what threads share of an operation, and what comes after."""
        tiles = row_tiles(one)
        if tiles > 1:
            shared = [(tile, tile + 1) for tile in range(tiles)]
            return (shared, [(tiles, ALL)]) if self.rows[begin][t.CODE] == t.Op.SYNTHESIZE else (shared, [])
        if end - begin == 1 and isinstance(one, Update) and self.rows[begin][t.CODE] == t.Op.UPDATE:
            chunks = -(-math.prod(self.graph.network.layers[one.layer].shape) // u.CHUNK)
            return [(chunk, chunk + _CHUNKS) for chunk in range(0, chunks, _CHUNKS)], []
        return [(0, ALL)], []

    def _scatter(self, one: Scatter) -> None:
        arrays = (self._array(f"connections/{one.connection}/{n}") for n in ("starts", "targets", "weights"))
        row = dict(zip((t.B, t.C, t.D), arrays, strict=True))
        self._row(t.Op.SCATTER, one, {**self._read(one.source), t.A: one.positions, **row}, ())

    def _together(self, one: Carry, weights: Weights) -> int:
        """Make room for an operation on several slices at once; return its mark in the row."""
        p, outputs = weights.patches, weights.patches.length if one.scatter else weights.patches.features
        self.places = max(self.places, p.positions)
        self.room = max(self.room, p.positions * -(-outputs // PANEL) * PANEL)
        if not one.scatter:
            return 1
        self.turned[weights.turned] = weights
        return self._array(weights.turned)

    def _update(self, one: Update) -> None:
        first, last = self._summed(one.sources)
        rule, key = one.rule, f"layers/{one.layer}"
        V, before = (self._array(f"{key}/{n}" if n else NOTHING) for n in (rule.potential, rule.previous))
        row = {t.A: first, t.B: last, t.D: V, t.E: before, t.F: self._array(BUFFERS)}
        if rule.adaptive is not None:
            self._accelerate(one, row)
            return
        if rule.variables:
            self._spike(one, row)
            return
        if rule.row is not None:
            self._row_function(one, rule.row)
            return
        if rule.scale is not None:
            row |= {t.G: self._array(f"{key}/time_scale")}
        self._row(t.Op.UPDATE, one, row, _numbers(rule, self.graph.network.run.dt))
        if rule.name in _RESCALE:
            n = rule.numbers
            row = {t.A: _RESCALE[rule.name], t.B: int(n["together"])}
            self._row(t.Op.RESCALE, one, row, [n[name] for name in ("low", "high", "mean", "deviation")])
        if rule.name in _NOISES:
            row = {t.A: self._stream(one.layer), t.B: self._array(WORDS[0])}
            self._row(_NOISES[rule.name], one, row, [*rule.numbers.values()])
        if rule.vertices:
            self._polyline(one)

    def _stream(self, layer: str) -> int:
        return self._array(f"random/layers/{layer}")

    def _polyline(self, one: Update) -> None:
        vertices, key = f"scratch/vertices of {one.layer}", f"layers/{one.layer}/{one.rule.potential or 'A'}"
        corners = [*one.rule.vertices, (np.inf, 0.0)]
        slopes = [(b - a) / (w - v) if w > v else 0.0 for (v, a), (w, b) in pairwise(corners)]
        slopes[-1] = one.rule.slopes[1]
        self.constants[vertices] = (
            tuple(x for (v, a), slope in zip(one.rule.vertices, slopes, strict=True) for x in (v, a, slope)),
            1,
        )
        row = {**self._read(Source(key)), t.A: self._array(vertices)}
        self._row(t.Op.POLYLINE, one, row, (one.rule.slopes[0],))

    def _spike(self, one: Update, row: dict[int, int]) -> None:
        n, dt, drives = one.rule.numbers, self.graph.network.run.dt, []
        for channel in range(3):
            heard = [replace(s, buffer=0) for s in one.sources if s.buffer == channel]
            drives.append(self._gather(one, row, heard, f", channel {channel}"))
            size, rate = n[f"noise {channel}"], n[f"noise_rate {channel}"]
            if size:
                words = {t.B: self._array(WORDS[0]), t.C: self._array(WORDS[1]), t.D: channel}
                shots = replace(one, out=drives[-1])
                words[t.A] = self._stream(one.layer)
                self._row(t.Op.SHOTS, shots, words, (size, min(1.0, rate * dt / 1000)))
        numbers = (n["heun"], dt, n["tau"], n["rest"], n["threshold"], math.exp(-dt / n["recovery"]))
        reversal = (n[f"reversal {channel}"] for channel in range(3))
        decay = (math.exp(-dt / n[f"decay {channel}"]) for channel in range(3))
        names = [*drives, *(f"layers/{one.layer}/{name}" for name in one.rule.variables)]
        arrays = [self._array(name) for name in names]
        row = dict(zip((t.A, t.B, t.C, t.IN, t.D, t.E, t.F, t.G), arrays, strict=True))
        self._row(t.Op.SPIKE, one, row, (*numbers, n["fatigue"], n["after"], n["largest"], *reversal, *decay))

    def _row_function(self, one: Update, function: RowFunction) -> None:
        self.row_functions[one.layer] = function
        form, key = function.form, f"layers/{one.layer}"
        shape, draws = self.graph.network.layers[one.layer].shape, []
        for name, kind in zip(form.draws, function.draws, strict=True):
            draws.append(f"scratch/{one.layer} {name}")
            self.scratch[draws[-1]] = math.prod(shape)
            stream = {t.A: self._stream(f"{one.layer}/{name}"), t.B: kind == "normal"}
            drawn = replace(one, out=draws[-1])
            self._row(t.Op.DRAW, drawn, {**stream, t.C: self._array(WORDS[0])}, ())
        ends, first = {}, len(self.sources)
        for buffer in range(form.buffers):
            heard = [replace(source, buffer=0) for source in one.sources if source.buffer == buffer]
            ends[t.F + buffer] = self._summed(heard)[1]
        names = [*(f"{key}/{name}" for name in form.variables), *draws, one.out]
        _, last = self._summed([Source(name) for name in names])
        room, buffers = f"scratch/{one.layer} addresses", f"scratch/{one.layer} buffers"
        self.lists[room], self.scratch[buffers] = ARRAYS + form.arrays, (form.buffers + 1) * u.CHUNK
        with calling(self.graph.network.layers[one.layer], f"layers.{one.layer}"):
            place = row_address(function.function, form)
        row = {t.A: first, t.B: last, t.C: place, t.D: self._array(room), t.E: form.buffers, **ends}
        row |= {t.IN: self._array(buffers)}
        self._row(t.Op.ROW, one, row, (self.graph.network.run.dt, *function.values))

    def _gather(
        self, one: Update | Call, row: dict[int, int], sources: Sequence[Source], end: str = ""
    ) -> str:
        """Make the sum of sources an array of its own."""
        out = f"{_INPUT}{one.layer}{end}"
        self.scratch[out] = int(np.prod(self.graph.network.layers[one.layer].shape))
        first, last = self._summed(sources)
        gathered = Update(out, CompiledRule("linear"), tuple(sources), one.layer, when=one.when)
        row = {**row, t.A: first, t.B: last, t.D: 0, t.E: 0}
        self._row(t.Op.UPDATE, gathered, row, _numbers(gathered.rule, 1))
        return out

    def _lazyupdate(self, one: LazyUpdate) -> None:
        first, last = self._summed(one.sources)
        ny, nx, nf = self.graph.network.layers[one.layer].shape
        units = ny * nx * nf
        keys = {name: f"own/{one.layer} {name}" for name in ("products", "kept")}
        self.own |= {keys["products"]: (2 * units, "f4"), keys["kept"]: (KEPT_NUMBERS, "f8")}
        numbers, lists, spare = (f"scratch/{one.layer} {name}" for name in ("numbers", "lists", "projected"))
        self.scratch |= {spare: 2 * (units + DRIVE_BLOCK * nf)}
        self.scratch[numbers], self.lists[lists] = rooms(nf)
        row = {
            t.A: first, t.B: last, t.C: len(self.drives),
            t.HISTORY: self._array(one.history), t.POTENTIAL: self._array(f"layers/{one.layer}/V"),
            t.PRODUCTS: self._array(keys["products"]), t.KEPT: self._array(keys["kept"]),
            t.FLOATS: self._array(numbers), t.LISTS: self._array(lists), t.SPARE: self._array(spare),
            t.FEATURES: nf, t.DISPLAY: one.display,
            t.AWAKE: self._array(one.awake), t.MOST: int(one.most * units),
        }  # fmt: skip
        before = set(self.own) - {keys["products"]}
        self.drives += [self._drive(drive) for drive in one.drives]
        self.snapshots_of[one.layer] = sorted(self.own.keys() - before)
        row[t.D] = len(self.drives)
        if one.rule.scale is not None:
            row[t.G] = self._array(f"layers/{one.layer}/time_scale")
        self.lazy_rows.append(len(self.rows))
        self._row(t.Op.LAZY, one, row, _numbers(one.rule, self.graph.network.run.dt))

    def _drive(self, drive: Drive) -> list[int]:
        p, name = drive.patches, drive.key.rpartition("/")[2]
        size, geometry = p.y.padded * p.x.padded * p.channels, self._geometry(drive.patches)
        weights = Weights(drive.weights, p)
        names = {t.ROWS: weights.rows[0], t.NORMS: weights.rows[1], t.PANELS: weights.names[0]}
        if p.shared:
            self.weights[weights.names] = weights
            self.read_by_rows.add(weights.names)
        else:
            names = {t.OWN: drive.weights, t.NORMS: f"own/{name} norms"}
            self.own[names[t.NORMS]] = (p.positions * p.features + WORD, "f4")
            self.norms_of[names[t.NORMS]] = weights
        snapshots, lengths = f"own/{name} snapshots", f"own/{name} lengths"
        self.own |= {snapshots: (2 * size, "f4"), lengths: (2 * p.positions, "f4")}
        bounds, squares = f"scratch/{name} bounds", f"scratch/{name} squares"
        self.scratch |= {bounds: p.positions, squares: size + p.x.padded * p.channels}
        source, _ = self._summed([drive.source])
        columns = {
            t.SOURCE: source, t.FILTERED: self._array(drive.key), t.SNAPSHOTS: self._array(snapshots),
            t.LENGTHS: self._array(lengths), t.GEOMETRY: geometry,
            t.OFFSETS: self._array(f"scratch/offsets {geometry}"),
            t.BOUNDS: self._array(bounds), t.SQUARES: self._array(squares),
        }  # fmt: skip
        columns |= {column: self._array(key) for column, key in names.items()}
        return [columns.get(column, 0) for column in range(t.DRIVES)]

    def _accelerate(self, one: Update, row: dict[int, int]) -> None:
        drive, turned = self._gather(one, row, one.sources), f"{_INPUT}{one.layer}, turned"
        self.scratch[turned] = self.scratch[drive]
        assert one.rule.adaptive is not None
        names = (one.rule.potential, one.rule.previous, turned, *one.rule.adaptive)
        arrays = [self._array(n if n == turned else f"layers/{one.layer}/{n}") for n in names]
        row = dict(zip((t.A, t.B, t.C, t.D, t.E), arrays, strict=True))
        self._row(t.Op.ACCELERATE, one, {**row, t.IN: self._array(drive)}, _numbers(one.rule, 1))

    def _control(self, one: Control) -> None:
        first = len(self.sources)
        for term in one.terms:
            self.sources.append((self._array(f"layers/{term.layer}/A"), 1, NORMS[term.norm]))
            self.factors.append(term.coefficient)
        others = (self._array(f"layers/{one.layer}/{n}") for n in ("time_scale_max", "energy_before"))
        kind, *growth = one.scale
        row = dict(zip((t.A, t.B, t.C, t.D, t.E), (*others, first, len(self.sources), kind), strict=True))
        self._row(t.Op.CONTROL, one, row, growth)


def _items(
    spans: Sequence[tuple[int, int]], parts: Sequence[Parts], stages: Sequence[int], last: tuple[int, int]
) -> list[tuple[int, ...]]:
    """Return the items of a step, stage by stage; see `kernels/cpu/program/team.py`."""
    found: list[tuple[int, ...]] = []
    for stage in range(max(stages, default=-1) + 1):
        for turn in range(2):
            before = len(found)
            for span, shared, at in zip(spans, parts, stages, strict=True):
                if at == stage:
                    found += [(*span, before, *part) for part in shared[turn]]
    return [*found, (*last, len(found), 0, ALL)]


def _numbers(rule: CompiledRule, dt: float) -> list[float]:
    """Return the constants of an UPDATE; see `kernels/cpu/program/units.py`."""
    code = rule_number(rule.name, _RULES)
    n, values = rule.numbers, [0.0] * t.NUMBERS
    if rule.potential or rule.name == "transfer":
        form = (rule.threshold, rule.shift, rule.width, rule.minimum, rule.maximum, rule.signed)
        constants = cell(code, rule.self_interaction, rule.inertia, *form)
        values[: u.FACTOR] = [float(value) for value in constants]
    else:
        values[u.SHIFT], values[u.TOP] = n.get("centre", 0.0), n.get("width", 1.0)
        values[u.SIGNED] = n.get("inverted", 0.0)
    e, gain = rule.decays(dt)
    values[u.RULE], values[u.DT], values[u.TAU] = code, dt, rule.tau
    values[u.FACTOR] = n.get("factor", 1.0) if rule.decay is None else float(e)
    values[u.GAIN] = float(gain)
    return values
