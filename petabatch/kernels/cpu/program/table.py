"""The format of a program: one row of integers for each operation, and one of its constants.

    rows      int64 [operations, COLUMNS]    what is done, when, to which arrays (by number)
    numbers   float64 [slices, operations, NUMBERS]  constants: values per slice need no second program
    sources   int64 [n, 3]                   array, steps it is looked back, buffer: what UPDATE adds up
    factors   float32 [slices, n]            the factor of each source
    arrays    int64 [slices, n, 3]           address, numbers in a place, places; see `views.py`
    shapes    int64 [n, SHAPES]              geometries of patches, and scratch that goes with them
    drives    int64 [n, DRIVES]              what LAZY knows of the connections that drive a code

An array is one of a slice's state (activities: step t in place t modulo the number of places) or scratch of
the thread; number 0 is empty. Operations are made in order, in each step in which they are due, each in all
slices of the call before the next. Some have parts that depend on no other, which threads can share: PROJECT,
SYNTHESIZE, POOL and LAZY the tiles of their geometry, UPDATE the chunks of its layer. Kernels of one
operation see the numbers, factors and arrays of one slice; those of `together.py` those of all.
"""

from __future__ import annotations

from enum import IntEnum

from petabatch.kernels.cpu.layout import Shape
from petabatch.kernels.rows import NUMBERS as NUMBERS

(
    CODE, PERIOD, OFFSET, STANDS, WINDOW, OUT, IN, LOOKBACK, A, B, C, D, E, F, G, H, HISTORY, POTENTIAL,
    PRODUCTS, KEPT, FLOATS, LISTS, SPARE, FEATURES, DISPLAY, AWAKE, MOST, DECAY, BITS, TALLIES, HEIGHT, PARTS,
    KERNEL, TOGETHER,
) = range(34)  # fmt: skip
"""Columns of a row: an `Op`; due at steps t with (t - OFFSET) % PERIOD == 0, or, if it STANDS, at all others;
only in the last WINDOW steps of a run, if that is not 0; the array that is written; the array that is read,
and of how many steps ago; what else an operation needs, see `Op`; the addresses of the compiled operation and
of that for several slices at once, if there is one, see `calls.py`."""
COLUMNS = 34
_OWN = len(Shape._fields)
TILES, STRIP, LEFT, STRIDE, STRIPS, WINDOW_OF, DRIVE, ACTIVE, VALUES, ENDS, PLACES, VECTORS = range(
    _OWN, _OWN + 12
)
SHAPES = _OWN + 12
"""Columns of a geometry: the numbers of a `Shape`; tiles, floats in a strip, where in its row the first patch
starts and how far the next one is, in floats; the scratch arrays of a `Scratch`."""
(
    SOURCE, FILTERED, SNAPSHOTS, LENGTHS, GEOMETRY, OFFSETS, ROWS, NORMS, PANELS, BOUNDS, SQUARES, OWN,
) = range(12)  # fmt: skip
"""Columns of a drive: its row in `sources`; F, its snapshots and their lengths, see `lazy/`; the geometry,
where each patch starts; the weights as rows, |w|, and as panels; scratch for bounds and for squares; patches
of each unit's own, in place of rows and panels."""
DRIVES = 12
ZERO, CONSTANT, MIRROR = range(3)
"""Borders."""


class Op(IntEnum):
    """Operations, with the meaning of columns A, B, ... and of numbers 0, 1, ..."""

    COPY = 0
    """OUT = IN of LOOKBACK steps ago."""
    FILL = 1
    """OUT = number 0."""
    FILL_DOUBLE = 2
    """OUT, float64, = number 0."""
    EXTEND = 3
    """OUT = IN [A, B, G] with C, D rows before and after and E, F columns; H: the border; number 0: the value
    beyond a CONSTANT one."""
    PROJECT = 4
    """OUT [units] = product of each unit's patch with the padded IN; A: geometry; B: panels; C: patches of
    each unit's own. One of B and C is empty."""
    SYNTHESIZE = 5
    """OUT [fine] = sum of the patches of the active units of IN; A: geometry; B: groups; C: own patches; D:
    panels of the same weights read from the other end, where one position's patch is the whole layer. E:
    scratch for the sums of tiles, where threads share them; the part after the tiles adds these up. F: bits
    of the active units, where a LAZY has written them."""
    POOL = 6
    """OUT [units] = number 0 times the sum of windows of the padded IN; A: geometry; B: 1 for the maximum."""
    SPREAD = 7
    """OUT [fine] = the same of the units of IN whose windows cover it; C: scratch, padded."""
    UPDATE = 8
    """OUT = rule of the sums of sources A .. B; D, E: arrays V and before; F: scratch for the two buffers; G:
    time scale, if not 0; numbers: see `units.py`."""
    RESCALE = 9
    """OUT in place: A: method; B: units that are normalised together; numbers: low, high, mean, deviation."""
    ACCELERATE = 10
    """OUT = FISTA's code after drive IN; A: A_before; B: drive_before; C: two buffers; D: step; E: age;
    F: the link of sums over tiles, empty where there is one."""
    CONTROL = 11
    """OUT = time scale after the norms of sources C .. D, whose buffer is the norm; A: its ceiling; B: energy
    before; E: kind of growth; numbers: those of `Growth`."""
    MEASURE = 12
    """Column A of the sums = norm B of OUT, where it is watched."""
    CROP = 13
    """OUT [A, B, G] = the part of IN from row C and column D on; E: columns of IN."""
    POLYLINE = 14
    """OUT = polyline of IN, which may be OUT; A: vertices (V, A, slope up to the next), float32."""
    NOISE = 15
    """OUT += number 0 + number 1 times normal random numbers; A: pool of the stream; B: scratch; D: the
    place of the first unit in the whole layer."""
    DROP = 16
    """OUT = 0 where a random number is below number 0; A: pool of the stream; B: scratch; D: as of NOISE."""
    SHOTS = 17
    """OUT += shot noise of channel D of three: up to number 0 with probability number 1; A: pool of the
    stream; B, C: scratch."""
    SPIKE = 18
    """OUT = spikes after inputs A, B, C; IN: potential; D: threshold; E, F, G: conductances; H, HISTORY:
    inputs of gap junctions, empty without any; numbers: see `spiking.py`."""
    LAZY = 19
    """OUT = code after the sums of sources A .. B and drives C .. D, as UPDATE has it, where only units are
    computed that could be active; G, numbers: as there; HISTORY, DECAY, PRODUCTS, KEPT, TALLIES: arrays of
    `lazy/`; BITS: which units are active, a bit each, in words of FEATURES; POTENTIAL: V, written while all
    units are computed; FLOATS, LISTS, SPARE: scratch; steps of a DISPLAY; AWAKE: whether all units are
    computed, decided when a display begins with MOST units active or fewer; PARTS: one for each tile of
    HEIGHT positions (0: for all), and two more."""
    ROW = 20
    """OUT = row function at address C; A .. B: sources that E buffers add up, and the arrays it is called
    with; F, ...: where each buffer's sources end; D: scratch for addresses; IN: for buffers;
    LOOKBACK: 1 where the activity of the step before is an array of its own, else OUT holds it at first;
    numbers: parameters."""
    DRAW = 21
    """OUT = random numbers, normal or (B = 0) uniform; A: pool of the stream; C: scratch."""
    SCATTER = 22
    """OUT = sum over the synapses of the units of a list at A positions; B: where those of a unit start; C:
    their post units; D: weights; IN, E, F: lists as LIST writes them, of LOOKBACK steps ago; G: delays, if
    not 0. What is delayed waits in OUT, that of step t in place t modulo its length. Made in several slices
    at once, it reads the activities H, and keeps them and sums in HISTORY, scratch of all slices; LISTS,
    PARTS, KEPT, TALLIES, FLOATS: the synapses by post unit, as `Incoming` has them; SPARE: two numbers of a
    call."""
    LOOK = 23
    """OUT, float64, = duality gap of code D, image E and reconstruction F through patches of geometry A, at
    some steps; B: panels; C: patches of each unit's own; G: scratch, padded; H: where the next look begins,
    and the step that met the target; numbers: see `look.py`."""
    POISSON = 24
    """OUT = events of Poisson processes with the rates OUT + number 0, in a step of number 1; A: pool of the
    stream; B, C: scratch."""
    EVENTS = 25
    """OUT = numbers of the spikes of this step, with steps of number 0; A: their times, ascending, float64;
    B: their units."""
    LIST = 26
    """A list in OUT, int32, of the active units of IN, and in A of their activities; B: int32, where the next
    list begins, and where each begins and ends: step t has place t modulo the number of places. In several
    slices at once nothing is done: synapses that are summed up so read no list."""
    LARGEST = 27
    """OUT = the largest of each A features of IN."""
    BACKGROUND = 28
    """OUT = for each A features of IN, B copies of 1 where all are 0, else of 0, and B copies of each."""
    BINS = 29
    """OUT in place: A: features, one for each bin; numbers: see `positions.py`."""
    UNPOOL = 30
    """OUT [rows, D, E] = IN where A is the largest of its window of B rows and C columns, else 0."""
    EXCHANGE = 31
    """IN [B + C + D, E] in place, the C rows of this rank and more before and after: these become those of
    the ranks that have the next tiles, or (F = 1) what these have beyond their tiles is added to OUT, the
    rows of this rank; A: the link, see `messages.py`."""
    JOIN = 32
    """OUT [B] = sum of IN over the ranks of a link A; or, if C > 0, OUT [B / C, ranks, C]
    has IN [B / C, C] of each."""
