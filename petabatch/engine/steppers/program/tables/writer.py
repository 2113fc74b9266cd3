"""Writing of the tables of a program: arrays by number, rows of operations, sums of sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from petabatch.engine.steppers.program.tables.rules import constants
from petabatch.engine.steppers.program.tables.weights import Weights
from petabatch.geometry import Patches
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program import units as u
from petabatch.network.graph import Graph
from petabatch.network.operations import (
    Call,
    Control,
    Exchange,
    Join,
    Operation,
    Program,
    Source,
    Update,
)
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.rows import RowFunction

NOTHING = "scratch/"
"""The empty array, number 0."""
GEOMETRY = ("window", "drive", "active", "values", "ends", "places", "vectors")
"""Scratch of a geometry, without its strips."""
WORDS = ("scratch/random words", "scratch/more random words")
BUFFERS = "scratch/buffers"
INPUT = "scratch/input of "
TRAIN = "spikes/"
"""Arrays of the spikes that a layer is given in a slice."""


class CallAt(NamedTuple):
    """An update in the interpreter, between compiled operations."""

    row: int
    """The first row after it."""
    call: Call
    drives: tuple[str, ...]
    """The arrays of its input, one for each buffer; none where it gathers its input itself."""


class Writer:
    """What is collected of a program; modules of operations add to it."""

    def __init__(self, graph: Graph, program: Program, slices: int = 1) -> None:
        """Begin with nothing; `slices` are advanced in one call at most."""
        self.graph, self.program, self.slices = graph, program, slices
        self.kept: Mapping[str, int] = {}
        """Of how many steps lists of the active units of a layer are kept, at least."""
        self.places, self.room = 0, 0
        """Positions of a slice that are computed with those of others, and floats of their results."""
        self.turned: dict[str, Weights] = {}
        """Panels of weights that are read from the other end, by their name."""
        self.numbers_of: dict[str, int] = {NOTHING: 0}
        self.scratch, self.constants = dict(program.scratch), dict(program.constants)
        self.trains: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {}
        """By layer, the times and units of the spikes that a slice is given."""
        self.lists: dict[str, int] = {}
        """Words of each scratch array of lists."""
        self.private = {BUFFERS, *WORDS}
        """Scratch of each thread; it holds nothing between operations."""
        self.active: dict[str, tuple[str, str, str]] = {}
        """By layer, the scratch with the lists of its active units."""
        self.incoming: set[str] = set()
        """Connections whose synapses are sorted by post unit."""
        self.geometries: list[Patches] = []
        self.weights: dict[tuple[str, str], Weights] = {}
        self.own: dict[str, tuple[int, str]] = {}
        """Length and type of each array that a slice keeps from run to run, but need not."""
        self.drives: list[list[int]] = []
        self.read_by_rows: set[tuple[str, str]] = set()
        """The names of weights that lazy evaluation reads."""
        self.lazy_rows: list[int] = []
        """The rows of codes that are lazily evaluated, in the order of `program.lazy`."""
        self.active_bits: dict[str, str] = {}
        """By the activity of a lazily evaluated code, the array with the bits of its active units."""
        self.norms_of: dict[str, Weights] = {}
        """The norms of weights of each unit's own, by their array of a slice."""
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
        self.inside: dict[str, tuple[str, int]] = {}
        """Scratch that lies within other scratch: in which, and where it begins."""
        self.links: dict[str, Exchange | Join] = {}
        """What ranks exchange, by the array with its link."""
        self.row_functions: dict[str, RowFunction] = {}
        """By layer."""
        self.scratch[BUFFERS] = 2 * u.CHUNK

    def array(self, key: str) -> int:
        """Return the number of an array."""
        return self.numbers_of.setdefault(key, len(self.numbers_of))

    def row(self, op: t.Op, operation: Operation, row: Mapping[int, int], numbers: Sequence[float]) -> None:
        """Add a row with its numbers; `row` has the columns beside those of every operation."""
        when, columns = operation.when, [0] * t.COLUMNS
        columns[t.CODE], columns[t.PERIOD], columns[t.OFFSET] = op, when.period, when.offset
        columns[t.STANDS], columns[t.WINDOW] = when.stands, when.window
        columns[t.OUT] = self.array(operation.out)
        for column, value in row.items():
            columns[column] = value
        self.rows.append(columns)
        self.labels.append(operation.label)
        self.numbers.append([*numbers, *[0.0] * (t.NUMBERS - len(numbers))])

    def read(self, source: Source) -> dict[int, int]:
        """Return the columns of an operation with one source."""
        return {t.IN: self.array(source.key), t.LOOKBACK: source.lookback}

    def summed(self, sources: Sequence[Source]) -> tuple[int, int]:
        """Add sources that are summed up; return where they begin and end."""
        first = len(self.sources)
        self.sources += [(self.array(s.key), s.lookback, s.buffer) for s in sources]
        self.factors += [s.factor for s in sources]
        return first, len(self.sources)

    def geometry(self, p: Patches) -> int:
        """Return the number of a geometry."""
        if p not in self.geometries:
            self.geometries.append(p)
            for name in (*GEOMETRY, "strips", "offsets"):
                self.array(f"scratch/{name} {self.geometries.index(p)}")
        return self.geometries.index(p)

    def gather(
        self, one: Update | Call, row: dict[int, int], sources: Sequence[Source], end: str = ""
    ) -> str:
        """Make the sum of sources an array of its own."""
        out = f"{INPUT}{one.layer}{end}"
        self.scratch[out] = int(np.prod(self.graph.network.layers[one.layer].shape))
        first, last = self.summed(sources)
        gathered = Update(out, CompiledRule("linear"), tuple(sources), one.layer, when=one.when)
        row = {**row, t.A: first, t.B: last, t.D: 0, t.E: 0}
        self.row(t.Op.UPDATE, gathered, row, constants(gathered.rule, 1))
        return out

    def link(self, one: Exchange | Join) -> int:
        """Return the number of the link of what ranks exchange."""
        key = f"links/{one.out}"
        self.links[key] = one
        return self.array(key)

    def stream(self, layer: str) -> int:
        """Return the number of the random stream of a layer."""
        return self.array(f"random/layers/{layer}")
