"""The operations of a program: what a step does to the arrays of one slice.

`program.py` derives them from a network; `kernels/cpu/program` runs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from petabatch.geometry import Patches
from petabatch.kernels.timescale import Growth
from petabatch.spec.compiled import CompiledRule, Term
from petabatch.variable import Border


@dataclass(frozen=True)
class When:
    """The steps in which an operation is made."""

    period: int = 1
    offset: int = 0
    """At steps t with (t - offset) % period == 0; a period of 0 is never."""
    stands: bool = False
    """At all other steps instead."""
    window: int = 0
    """If not 0, only in the last `window` steps of a run: earlier results are not read."""

    def __str__(self) -> str:
        steps = f"t = {self.offset} mod {self.period}" if self.period else "never"
        text = "" if self.period == 1 else f"  where {'not ' if self.stands else ''}{steps}"
        return text + (f"  last {self.window}" if self.window else "")


ALWAYS = When()


@dataclass(frozen=True)
class Operation(ABC):
    """Something that is done to an array of a slice, by its key, or to scratch."""

    out: str
    when: When = field(default=ALWAYS, kw_only=True)

    def __str__(self) -> str:
        return f"{_short(self.out)} = {self._text}{self.when}"

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{type(self).__name__.lower()} {_short(self.out)}"

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return ()

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes."""
        return (self.out,)

    @property
    @abstractmethod
    def _text(self) -> str:
        """The right-hand side."""


@dataclass(frozen=True)
class Source:
    """An array that a layer's input is summed up from, of `lookback` steps ago."""

    key: str
    lookback: int = 0
    factor: float = 1.0
    buffer: int = 0

    def __str__(self) -> str:
        name = _short(self.key) + (f"[-{self.lookback}]" if self.lookback else "")
        return name if self.factor == 1 else f"-{name}" if self.factor == -1 else f"{self.factor:g} {name}"


@dataclass(frozen=True)
class Copy(Operation):
    """A copy of one array."""

    source: Source

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source,)

    @property
    def _text(self) -> str:
        return str(self.source)


@dataclass(frozen=True)
class Fill(Operation):
    """One value everywhere."""

    value: float
    double: bool = False
    """The array is of float64."""

    @property
    def _text(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class Extend(Operation):
    """A layer in the middle of its padding."""

    source: Source
    shape: tuple[int, int, int]
    rows: tuple[int, int]
    """Before and after; of `columns`, too."""
    columns: tuple[int, int]
    border: Border

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source,)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"pad {self.source}"

    @property
    def _text(self) -> str:
        return f"{self.source} with {self.rows} rows, {self.columns} columns around, border {self.border}"


@dataclass(frozen=True)
class Crop(Operation):
    """A part of a layer."""

    source: Source
    shape: tuple[int, int, int]
    """Of the part."""
    start: tuple[int, int]
    """Its first row and column."""
    columns: int
    """Of the layer."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source,)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"crop {self.source}"

    @property
    def _text(self) -> str:
        (ny, nx, _), (y, x) = self.shape, self.start
        return f"rows {y} .. {y + ny}, columns {x} .. {x + nx} of {self.source}"


@dataclass(frozen=True)
class Carry(Operation):
    """What patches deliver: each unit's product with its patch, or (`scatter`) the sum of patches."""

    source: Source
    weights: str
    """The array of weights; empty for pooling."""
    patches: Patches
    scatter: bool
    method: str = "sum"
    """Of pooling: sum or max."""
    factor: float = 1.0

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source,)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{self._verb} {self.out.removeprefix('scratch/')}"

    @property
    def _verb(self) -> str:
        if not self.weights:
            return "spread" if self.scatter else "pool"
        return "synthesize" if self.scatter else "project"

    @property
    def _text(self) -> str:
        p, what = self.patches, self._verb
        patch = f"{p.y.size} x {p.x.size} x {p.channels}"
        weights = f" by {self.weights.split('/')[1]}" if self.weights else f" {self.method}"
        return f"{what} {self.source}{weights}: {p.positions} positions, {p.features} patches {patch}"


@dataclass(frozen=True)
class Scatter(Operation):
    """What single synapses deliver, summed from the active units."""

    source: Source
    connection: str
    """Its arrays are those of `connections/<connection>`."""
    positions: int
    """Places at which the same synapses are."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (self.source,)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"scatter {self.connection}"

    @property
    def _text(self) -> str:
        places = f" at each of {self.positions} positions" if self.positions > 1 else ""
        return f"scatter {self.source} by {self.connection}{places}"


@dataclass(frozen=True)
class Update(Operation):
    """The rule of a layer on its summed sources."""

    rule: CompiledRule
    sources: tuple[Source, ...]
    layer: str
    """Its arrays are those of `layers/<layer>`."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return self.sources

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes, with the layer's variables."""
        return (self.out, f"layers/{self.layer}/")

    @property
    def _text(self) -> str:
        buffers = sorted({source.buffer for source in self.sources} | {0})
        sums = (" + ".join(str(s) for s in self.sources if s.buffer == buffer) for buffer in buffers)
        return f"{self.rule.name}({', '.join(sums)})"


@dataclass(frozen=True)
class Drive:
    """What a connection with patches delivers to a code that is lazily evaluated."""

    key: str
    """The array of F, the filtered layer."""
    source: Source
    """The layer that patches are of, padded; its factor is the connection's."""
    weights: str
    patches: Patches

    def __str__(self) -> str:
        return f"project {self.source} by {self.weights.split('/')[1]}"


@dataclass(frozen=True)
class LazyUpdate(Update):
    """The same of a leaky code of whose drives only those are computed that could make a unit active."""

    drives: tuple[Drive, ...]
    history: str
    """The array of H, what V has besides the drives of filtered layers."""
    current: str
    """The array that says whether V follows from H and the filtered layers."""
    awake: str
    """The array that says whether all units are computed until the next display."""
    display: int
    """Steps of a display."""
    most: float
    """Share of active units when a display begins above which all are computed."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (*self.sources, *(drive.source for drive in self.drives))

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes, with the layer's variables."""
        own = (self.history, self.current, self.awake, *(drive.key for drive in self.drives))
        return (*super().writes, *own)

    @property
    def _text(self) -> str:
        return f"{super()._text}, lazily: {', '.join(map(str, self.drives))}"


@dataclass(frozen=True)
class Control(Operation):
    """An adaptive time scale (`out`) follows the energy of the step before."""

    layer: str
    terms: tuple[Term, ...]
    scale: Growth
    """The numbers of its controller."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return tuple(Source(f"layers/{term.layer}/A", 1) for term in self.terms)

    @property
    def _text(self) -> str:
        return "time scale after " + " + ".join(map(str, self.terms))


@dataclass(frozen=True)
class Call(Operation):
    """What the layer does itself, in the interpreter: its update, in several slices at once."""

    layer: str
    reason: str
    sources: tuple[Source, ...] | None = None
    """What its input is summed up from; None where a connection is interpreted, too."""
    buffers: int = 1
    """Of its input."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return self.sources or ()

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes, with the layer's variables."""
        return (self.out, f"layers/{self.layer}/")

    @property
    def _text(self) -> str:
        return f"interpreted, {self.reason}"


@dataclass(frozen=True)
class Program:
    """The operations of a step, in order."""

    operations: tuple[Operation, ...]
    scratch: Mapping[str, int]
    """Floats of each scratch array, which holds nothing between steps but zeros around an `Extend`."""
    margins: Mapping[str, tuple[int, int, int]]
    """The shape of each image with its margin, of layers whose border is their image: `margins/<layer>`, as
    many steps of it as the layer keeps."""
    constants: Mapping[str, tuple[tuple[float, ...], int]]
    """Scratch that never changes: a pattern, and how often it is repeated."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """The codes, and why all units of one are computed in each step; nothing for one lazily evaluated."""

    @property
    def interpreted(self) -> dict[str, str]:
        """The layers that are updated in the interpreter, step by step, and why."""
        return {one.layer: one.reason for one in self.operations if isinstance(one, Call)}

    @property
    def readers(self) -> set[str]:
        """The layers that are made at the end of a run of steps alone."""
        return {one.layer for one in self.operations if isinstance(one, Update) and one.when.window}

    @property
    def lazy(self) -> tuple[LazyUpdate, ...]:
        """The codes that are lazily evaluated."""
        return tuple(one for one in self.operations if isinstance(one, LazyUpdate))

    def __str__(self) -> str:
        return "\n".join(map(str, self.operations))


def _short(key: str) -> str:
    """Return the key of an array as it is printed: V1 for the activity of a layer, V1.V for another."""
    kind, _, name = key.partition("/")
    if kind == "scratch":
        return f"<{name}>"
    if kind == "margins":
        return f"<{name} and its margin>"
    layer, _, variable = name.partition("/")
    return layer if variable == "A" else f"{layer}.{variable}"
