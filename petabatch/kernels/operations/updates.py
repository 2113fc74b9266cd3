"""Operations that the updates of layers are made of.

A program has them as a whole (`network/operations/`); its compiled form has them in these pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from petabatch.kernels.operations.base import OfSource, Operation
from petabatch.kernels.operations.fields import (
    Buffers,
    Count,
    Doubles,
    Drives,
    Floats,
    Geometry,
    Ints,
    Key,
    Longs,
    Numbers,
    Read,
    Source,
    Sources,
    Words,
)
from petabatch.kernels.rules import Cell
from petabatch.kernels.timescale import Growth

BUFFERS = "scratch/buffers"
"""Scratch of a thread for two chunks of units."""
WORDS = ("scratch/random words", "scratch/more random words")
"""Scratch of a thread for random numbers."""


@dataclass(frozen=True)
class UpdateUnits(Operation):
    """A rule on the sums of sources, unit by unit."""

    sources: Sources
    potential: Floats
    before: Floats
    """A further variable, of the step before."""
    scale: Doubles
    """The time scale, if the layer has one."""
    cell: Cell
    centre: float = 0.0
    slope: float = 1.0
    """Of the input, for rules without transfer function."""

    buffers = Key(Floats, BUFFERS)
    """Scratch for the sums of both buffers."""


@dataclass(frozen=True)
class UpdateLazily(Operation):
    """The update of a lazily evaluated code: units that may become active are computed; see `lazy/`."""

    sources: Sources
    drives: Drives
    layer: str
    history: Floats
    decay: Doubles
    awake: Longs
    """Whether all units are computed, decided when a display begins."""
    scaled: bool
    """Whether the layer has a time scale."""
    features: int
    display: int
    """Steps of a display."""
    most: int
    """Active units when a display begins above which all are computed."""
    height: int
    """Positions of a tile; 0: all."""
    parts: int
    """One for each tile, and two more."""
    cell: Cell
    potential = Key(Floats, "layers/{0.layer}/V")
    """Written while all units are computed."""
    scale = Key(Doubles, "layers/{0.layer}/time_scale", only="scaled")
    products = Key(Floats, "own/{0.layer} products")
    kept = Key(Doubles, "own/{0.layer} kept")
    tallies = Key(Doubles, "own/{0.layer} tallies")
    bits = Key(Words, "own/{0.layer} active")
    """Which units are active, a bit each, in words of `features`."""
    floats = Key(Floats, "scratch/{0.layer} numbers")
    """Scratch; so are `lists` and `spare`."""
    lists = Key(Words, "scratch/{0.layer} lists")
    spare = Key(Floats, "scratch/{0.layer} projected")


@dataclass(frozen=True)
class LazyDrive:
    """What `UpdateLazily` knows of a connection that drives the code."""

    source: Sources
    """One: the layer that patches are of, padded."""
    filtered: Floats
    name: str
    geometry: Geometry
    offsets: Longs
    """Where each patch starts."""
    rows: Floats
    """The weights as rows; so are `panels`."""
    panels: Floats
    norms: Floats
    """|w|."""
    own: Floats
    """Patches of each unit's own, in place of rows and panels."""
    snapshots = Key(Floats, "own/{0.name} snapshots")
    lengths = Key(Floats, "own/{0.name} lengths")
    """Of the patches of snapshots."""
    bounds = Key(Floats, "scratch/{0.name} bounds")
    """Scratch; so are `squares`."""
    squares = Key(Floats, "scratch/{0.name} squares")


@dataclass(frozen=True)
class RunRow(Operation):
    """A row function, called chunk by chunk."""

    inputs: Buffers
    arrays: Sources
    """Those it is called with behind its inputs: variables, random numbers, activity."""
    function: int
    """Its address."""
    table: Longs
    """Scratch for addresses."""
    buffers: Floats
    """Scratch for inputs."""
    apart: bool
    """The activity of the step before is an array of its own; else `out` holds it at first."""
    parameters: Numbers

    @property
    def number_of_inputs(self) -> Count:
        """How many buffers there are."""
        return len(self.inputs)


@dataclass(frozen=True)
class Random(Operation):
    """An operation with random numbers."""

    pool: Words
    """The pool of the stream."""

    words = Key(Words, WORDS[0])
    """Scratch."""


@dataclass(frozen=True)
class Draw(Random):
    """Random numbers, normal or uniform."""

    normal: bool


@dataclass(frozen=True)
class Noise(Random):
    """Normal random numbers are added, in place as by those below."""

    first: int
    """The place of the first unit in the whole layer."""
    mean: float
    std: float


@dataclass(frozen=True)
class Drop(Random):
    """Units are 0 with a probability."""

    first: int
    """The place of the first unit in the whole layer."""
    probability: float


@dataclass(frozen=True)
class CountEvents(Random):
    """Rates become numbers of events of Poisson processes, in a step of `dt`."""

    rate: float
    """Added to what arrived."""
    dt: float

    more = Key(Words, WORDS[1])
    """Scratch."""


@dataclass(frozen=True)
class Shots(Random):
    """Shot noise of a channel of three is added: up to `size`, with a probability."""

    channel: int
    size: float
    probability: float

    more = Key(Words, WORDS[1])
    """Scratch."""


@dataclass(frozen=True)
class Events(Operation):
    """The numbers of spikes that are given in this step."""

    times: Doubles
    """Ascending."""
    units: Ints
    dt: float


@dataclass(frozen=True)
class Rescale(Operation):
    """Units that are normalised `together`, in place."""

    method: int
    together: int
    low: float
    high: float
    mean: float
    std: float


@dataclass(frozen=True)
class Bins(Operation):
    """Bins of numbers, in place: a feature each."""

    features: int
    low: float
    high: float
    width: float
    outside: float
    without_zero: float
    """Whether an input of 0 has no bin."""


@dataclass(frozen=True)
class Unpool(OfSource):
    """Units where `places` are the largest of their window of rows and columns, 0 elsewhere."""

    places: Floats
    rows: int
    columns: int
    shape: tuple[int, int]
    """Units in a row, and features."""


@dataclass(frozen=True)
class Polyline(OfSource):
    """A polyline of the source, which may be what is written."""

    corners: Floats
    """V, A and the slope up to the next, of each vertex."""
    below: float
    """The slope before the first."""


@dataclass(frozen=True)
class Accelerate(OfSource):
    """FISTA's code after its drive."""

    before: Floats
    drive_before: Floats
    step: Doubles
    age: Doubles
    sums: Longs
    """The link of sums over tiles, if there is one."""
    cell: Cell

    @property
    def previous(self) -> Read:
        """The code of the step before."""
        return Source(self.out, 1)

    buffers = Key(Floats, BUFFERS)
    """Scratch for two chunks."""


@dataclass(frozen=True)
class Spike(Operation):
    """Spikes of conductance-based neurons."""

    exc: Floats
    """What arrives at a channel; so are `inh` and `inh_b`."""
    inh: Floats
    inh_b: Floats
    gap: Floats
    """Inputs of gap junctions, as `through`; empty without any."""
    through: Floats
    potential: Floats
    threshold: Floats
    of_exc: Floats
    """The conductance of a channel; so are `of_inh` and `of_inh_b`."""
    of_inh: Floats
    of_inh_b: Floats
    method: int
    """0: arma, 1: Heun's, 2: arma with tau_e of inh_b at the end."""
    dt: float
    tau: float
    rest: float
    base: float
    """The threshold at rest."""
    recovery: float
    """The factor on the distance from it, in a step."""
    fatigue: float
    after: float
    largest: float
    """The limit of conductances."""
    reversal: tuple[float, float, float]
    """Of exc, inh and inh_b."""
    decay: tuple[float, float, float]
    """The factors on conductances, in a step."""


@dataclass(frozen=True)
class FollowEnergy(Operation):
    """A time scale after the energy of the step before."""

    out: Doubles
    terms: Sources
    """Of the energy; the norm is the buffer."""
    ceiling: Doubles
    before: Doubles
    """The energy before."""
    growth: Growth


@dataclass(frozen=True)
class Measure(Operation):
    """A norm of a layer's activity, for a probe, where it is watched."""

    column: int
    """Of the sums."""
    norm: int

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (Source(self.out),)
