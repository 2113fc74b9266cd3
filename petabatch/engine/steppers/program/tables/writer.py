"""Writing of the tables of a program: arrays by number, rows of operations, sums of sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from petabatch.engine.steppers.program.tables.rules import cell
from petabatch.geometry import Patches
from petabatch.kernels.cpu.program import table as t
from petabatch.kernels.cpu.program import units as u
from petabatch.kernels.cpu.program.records import CODES
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import Source, encoded
from petabatch.kernels.operations.transport import Exchange, Join
from petabatch.kernels.operations.updates import BUFFERS, WORDS, LazyDrive, UpdateUnits
from petabatch.kernels.operations.weights import Weights
from petabatch.network.graph import Graph
from petabatch.network.operations import Call, Control, Program, Update
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.rows import RowFunction

NOTHING = "scratch/"
"""The empty array, number 0."""
GEOMETRY = ("window", "drive", "active", "values", "ends", "places", "vectors")
"""Scratch of a geometry, without its strips."""
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
        self.real = graph.network.run.precision
        """The precision of the arrays."""
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
        self.made: list[Operation] = []
        """The operation in each row."""
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

    def row(self, one: Operation, of: Operation, together: bool = False) -> None:
        """Add a piece of a program's operation `of`, made when that is; of several slices if that is said."""
        when, (columns, numbers) = of.when, encoded(one, self)
        columns[t.CODE], columns[t.TOGETHER] = CODES.get(type(one), 0), together
        columns[t.PERIOD], columns[t.OFFSET] = when.period, when.offset
        columns[t.STANDS], columns[t.WINDOW] = when.stands, when.window
        self.rows.append(columns)
        self.made.append(one)
        self.labels.append(of.label)
        self.numbers.append([*numbers, *[0.0] * (t.NUMBERS - len(numbers))])

    def summed(self, sources: Sequence[Source]) -> tuple[int, int]:
        """Add sources that are summed up; return where they begin and end."""
        first = len(self.sources)
        self.sources += [(self.array(s.key), s.lookback, s.buffer) for s in sources]
        self.factors += [s.factor for s in sources]
        return first, len(self.sources)

    def driven(self, drives: Sequence[LazyDrive]) -> tuple[int, int]:
        """Add drives of a code; return where they begin and end."""
        first = len(self.drives)
        self.drives += [encoded(one, self)[0] for one in drives]
        return first, len(self.drives)

    def shared(self, weights: Weights | None) -> Weights | None:
        """Keep weights in reading order, if there are any."""
        if weights is not None:
            self.weights[weights.names] = weights
        return weights

    def geometry(self, p: Patches) -> int:
        """Return the number of a geometry."""
        if p not in self.geometries:
            self.geometries.append(p)
            for name in (*GEOMETRY, "strips", "offsets"):
                self.array(f"scratch/{name} {self.geometries.index(p)}")
        return self.geometries.index(p)

    def gather(self, one: Update | Call, sources: Sequence[Source], end: str = "") -> str:
        """Make the sum of sources an array of its own."""
        out = f"{INPUT}{one.layer}{end}"
        self.scratch[out] = int(np.prod(self.graph.network.layers[one.layer].shape))
        gathered = Update(out, CompiledRule("linear"), tuple(sources), one.layer, when=one.when)
        self.row(UpdateUnits(out, sources, "", "", "", cell(gathered.rule, 1, self.real)), gathered)
        return out

    @staticmethod
    def stream(layer: str) -> str:
        """Return the pool of the random stream of a layer."""
        return f"random/layers/{layer}"
