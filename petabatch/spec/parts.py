"""Abstract parts of a network: layers, sources, connections and probes.

A part is both an immutable table of a params file (its fields) and the behaviour it stands for (its methods).
It never holds simulation arrays: it declares them as `Variable`s, and the engine allocates them and passes
them in.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from petabatch.kernels.rows import Draw
from petabatch.spec.compiled import CompiledRule, NotSuitable, Term
from petabatch.spec.images import ImageStream
from petabatch.spec.model import LARGEST, Count, Finite, Flag, Index, Offset, OneOf, Part
from petabatch.spec.rows import row_function, update_by_row
from petabatch.spec.schedule import DISPLAY as DISPLAY
from petabatch.spec.schedule import NEVER as NEVER
from petabatch.spec.schedule import STEP as STEP
from petabatch.spec.schedule import Every, Schedule, fires
from petabatch.spec.synapses import Ends, Synapses
from petabatch.spec.weights import Initial, Learning, Normalize
from petabatch.variable import Array, Border, Variable

if TYPE_CHECKING:
    from petabatch.geometry import Link
    from petabatch.kernels.array import ArrayKernels

Operation = Literal[
    "copy", "forward", "transposed", "pool_max", "pool_sum", "pool_average", "sparse", "other"
]
"""Of a connection: the activity as it is, through patches of weights, through them the other way, pooled over
windows, over single synapses, or else."""


def _bounded(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if math.prod(shape) > LARGEST:
        raise PydanticCustomError(
            "too_many_units",
            "the layer has too many units",
            {"expected": f"rows x columns x features of at most {LARGEST}"},
        )
    return shape


Shape = Annotated[tuple[Count, Count, Count], AfterValidator(_bounded)]
"""`[ny, nx, nf]`: rows, columns, features."""


@dataclass(frozen=True)
class StepContext:
    """Context of one step of one lane, passed to `Layer.update`."""

    step: int
    """Number of the step being made, from 1."""
    dt: float
    """Time step."""
    slices: range
    """Slice numbers along the leading axis of the lane's arrays, counted over all ranks; in a sweep, from 0
    in each point."""
    seed: int
    """Seed of the run."""
    xp: Any = np
    """Array module of the lane's arrays, numpy or cupy."""
    display: int = 1
    """Display period, in steps."""
    layer: str = ""
    """Name of the layer that is updated."""


Moment = StepContext  # the former name, which existing plug-ins import


class Stability(NamedTuple):
    """The step size of a layer's dynamics and its limit."""

    step: float
    """k = 1 - exp(-dt / tau)."""
    largest: float
    """The step size above which the layer may diverge."""
    speed: float = 1.0
    """How many times as fast as the LCA it converges, about."""


class Penalty(NamedTuple):
    """The sparsity penalty of an energy 0.5 |residual|^2 + coefficient * cost(A)."""

    cost: Literal["l1", "l0", "firm"]
    coefficient: float


class Layer(Part):
    """A layer of units `[batch, ny, nx, nf]`: state variables, input channels, and an update rule."""

    kind: ClassVar[str] = "layer"
    answers = (
        "static",
        "host_numbers",
        "compiled_rule",
        "row",
        "graph_safe",
        "splittable",
        "linear_gain",
        "stability",
        "penalty",
    )
    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (0, -1.0)}
    """Channel name to (buffer, sign); `update` receives one summed array per buffer."""

    graph_safe: ClassVar[bool] = False
    """`update` launches the same kernels on the same arrays in each step, so that steps can be captured and
    replayed as CUDA graphs."""

    row: ClassVar[Callable[..., None] | None] = None
    """The update of some units of one slice, as a function `row(p, state, drive, draws, A)` that numba
    compiles: parameters, variables, inputs and random numbers by name, and the activity, which is that of the
    step before."""
    draws: ClassVar[Mapping[str, Draw]] = {}
    """Random numbers of the row function, one for each unit and step: name to `uniform` or `normal`."""

    type: str
    shape: Shape
    """Rows, columns, features: `[ny, nx, nf]`."""
    phase: Index | None = None
    """Update level of the layer; by default it is derived from the connections."""
    border: Literal["zero", "mirror", "image"] | Finite = "zero"
    """Boundary condition for connections that read beyond the edge: zeros, reflection, a constant, or, for
    layers of type `input`, the surrounding image, which must then be larger than the layer."""
    every: Schedule = STEP
    """Update schedule: the layer updates in the first step of each such period, when an input layer with the
    same period displays a new image. In between, activity and state are held constant (PetaVision's
    updateOnlyOnTrigger)."""
    offset: Offset = 0
    """Delay of updates and resets, in steps; with `every = "display"`, -1 is the last step of each
    display."""
    reset: Schedule = NEVER
    """Reset schedule: the variables are set to their initial values in the first step of each such period.
    The activity of the previous step, which connections may still deliver, is not reset."""
    start: dict[str, Annotated[Initial, OneOf(Initial)]] = Field(default_factory=dict)
    """State variables in step 0, by name, initialised as weights are: `start = { V = { type = "uniform",
    high = 0.1, per_slice = true } }`. Other variables start, and all are reset, at their initial values."""
    reset_to: str | None = None
    """Layer whose membrane potential (or activity, if it has none) the potential is reset to. The other
    variables are then not reset (PetaVision's resetStateOnTrigger)."""

    @property
    def steady(self) -> bool:
        """Whether the layer updates in every step and is never reset."""
        return self.every == STEP and self.reset.count == 0

    @property
    def static(self) -> bool:
        """Whether its activity changes by nothing but the images that the engine reads."""
        return False

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero, so that recordings are stored compressed."""
        return False

    @property
    def images(self) -> ImageLayer | None:
        """This layer as one that shows images, None where it shows none."""
        return None

    @property
    def controller(self) -> Controller | None:
        """The controller of its time scale, None where the step size is that of the run."""
        return None

    @property
    def linear_gain(self) -> float | None:
        """g where A = g * input and nothing else, None where the layer is not linear."""
        return None

    def stability(self, dt: float, curvature: float) -> Stability | None:
        """Return the step size of the layer's dynamics and its limit, None where there is no such limit.

        `curvature` is L, the largest eigenvalue of how the layer's activity reduces its own drive.
        """
        return None

    @property
    def penalty(self) -> Penalty | None:
        """The penalty of the energy that its dynamics minimise, None where none is known."""
        return None

    @property
    def splittable(self) -> bool:
        """Whether its features can be split over ranks: a unit depends on no other of its layer."""
        return False

    @property
    def host_numbers(self) -> bool:
        """Whether `update` sends numbers from the host, as random ones, in each step."""
        return False

    def compiled_rule(self) -> CompiledRule:
        """Return the update as compiled code makes it; raises NotSuitable where there is none."""
        if self.row is not None:
            return CompiledRule("row", memory=True, row=row_function(self))
        raise NotSuitable(f"layers of type {self.type} have no compiled rule")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a type of layers without an update."""
        super().__pydantic_init_subclass__(**kwargs)
        named = isinstance(cls.model_fields["type"].default, str)
        by_row = any(base.__dict__.get("row") for base in cls.__mro__)
        if named and cls.update is Layer.update and not by_row:
            raise TypeError(f"the layer {cls.__name__} has neither `update` nor `row`")

    def due(self, step: int, display: int) -> bool:
        """Return whether the layer updates in `step`."""
        return fires(self.every.steps(display), step, 1 + self.offset)

    def resets(self, step: int, display: int) -> bool:
        """Return whether the layer is reset in `step`."""
        return fires(self.reset.steps(display), step, 1 + self.offset)

    def restart(self, state: Mapping[str, Array], potential: Array | None) -> None:
        """Reset in place: all variables to their initial values, or only `V` to `potential` if given.

        As in PetaVision's `HyPerInternalStateBuffer`, a given potential replaces nothing but V: momentum,
        conductances and thresholds are kept.
        """
        if potential is not None:
            state["V"][...] = potential
            return
        for variable in self.variables():
            state[variable.name][...] = variable.initial

    def variables(self) -> Sequence[Variable]:
        """Declare the state variables besides the activity `A`; shapes omit the leading batch axis."""
        return ()

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Advance the layer by one step, in place.

        `state` holds the declared variables, `drive` the summed input of each buffer, `previous` the activity
        of the previous step; `activity` receives the new activity, and may be the same array as `previous`.
        All are `[lanes, ny, nx, nf]`. By default the row function makes the update.
        """
        update_by_row(self, ctx, state, drive, previous, activity)

    def prepare(self, state: Mapping[str, Array], activity: Array) -> None:
        """Set the initial state (step 0) in place; by default variables keep their declared values."""


class Controller(Protocol):
    """The controller of a layer's time scale; see `layers/timescale.py`."""

    @property
    def energy(self) -> str:
        """Name of the energy probe that it follows."""

    def control(self, state: Mapping[str, Array], energy: np.ndarray) -> None:
        """Set the time scale of the coming step from `energy`, float64 `[lanes]`, in place."""


class ImageLayer(Protocol):
    """A layer that shows images; see `layers/input.py`."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns, features."""

    @property
    def source(self) -> Source:
        """Where the images come from."""

    @property
    def every(self) -> Every:
        """How long one image is shown."""

    @property
    def offset(self) -> int:
        """Steps by which images change later."""

    @property
    def border(self) -> str | float:
        """What connections see beyond its edge."""

    def item(self, step: int, display: int) -> int | None:
        """Return the number of the item to be read before `step`, None when the last one stays."""

    def shown(self, step: int, display: int) -> int:
        """Return the number of the item that is seen at the end of `step`."""

    def next_change(self, step: int, display: int) -> int | None:
        """Return the first step after `step` that begins with a new item; None is never."""


class Source(Part):
    """The images of an input layer."""

    kind: ClassVar[str] = "source"
    type: str

    def paths(self) -> Sequence[str]:
        """Return the input files, in order; a resumed run checks that they have not changed."""
        return ()

    @abstractmethod
    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return `read(slice, item) -> float32 [ny, nx, nf]`, a thread-safe, pure function of its arguments.

        `slice` is the global slice number, `item` the number of the display, from 0. The data is opened and
        checked once, in this method.
        Raises InputError if the data is missing, unreadable, or does not fit the layer.
        """

    @property
    def read_ahead(self) -> bool:
        """Whether images are read ahead of the steps on other threads, as those of files are."""
        return type(self).paths is not Source.paths

    @property
    def traced(self) -> bool:
        """Whether `stream` knows which item it shows, so that the run records it."""
        return False

    @property
    def steps(self) -> Sequence[Any]:
        """The transforms of its images, in order: see `petabatch.sources.transforms`."""
        return ()

    @property
    def unfitted(self) -> bool:
        """Whether something is to be fitted to its images before the run."""
        return False

    @property
    def fitted_by_chance(self) -> bool:
        """Whether what is fitted depends on the seed of the run."""
        return self.unfitted

    def fitted(self, shape: tuple[int, int, int], seed: int) -> Source:
        """Return the source with what is fitted to its images; raises InputError as `open` does."""
        return self

    def fitted_as(self, other: Source) -> Source:
        """Return the source with what `other` has fitted to its images, where something is missing."""
        return self

    def nbytes(self, shape: tuple[int, int, int]) -> int:
        """Return the bytes that reading images for a layer of this shape keeps in memory, at most."""
        return 0

    def stream(self, shape: tuple[int, int, int], batch: int, seed: int) -> ImageStream:
        """Return what `open` returns, as a stream; see `petabatch.spec.images`."""
        return ImageStream(self.open(shape, batch, seed))


@dataclass(frozen=True)
class Wiring:
    """The wiring of a connection: the link between its two layers, and the owner of its weights."""

    link: Link | None = None
    weights: str | None = None
    """Name of the connection that owns the weights."""
    synapses: Ends | None = None
    """The units that it joins by single synapses of its own."""


class Connection(Part):
    """A connection from layer `pre` to a channel of layer `post`."""

    kind: ClassVar[str] = "connection"
    answers = ("operation",)
    type: str
    pre: str
    """Name of the presynaptic layer, which provides the activity."""
    post: str
    """Name of the postsynaptic layer, which receives the input."""
    channel: str = "exc"
    """Input channel of the post layer, usually `exc` (added) or `inh` (subtracted); `none` delivers no
    input."""
    strength: Finite = 1.0
    """Factor on the delivered input."""
    delay: Index = 0
    """Additional transmission delay, in steps."""
    feedback: Flag = False
    """Feedback connection: it closes a cycle and transmits the activity of the previous step."""

    @property
    def operation(self) -> Operation:
        """What it does with the activity of the pre layer."""
        return "other"

    @property
    def owner(self) -> WeightOwner | None:
        """This connection as one with weights of its own, None where it has none."""
        return None

    @property
    def borrows(self) -> str | None:
        """Name of the connection whose weights it uses, None where it uses none of another."""
        return None

    @property
    def learns_against(self) -> str | None:
        """Name of the layer against which borrowed weights learn here too, None where they do not."""
        return None

    def synapses(self, ends: Ends, rng: np.random.Generator) -> Synapses:
        """Return its synapses; of connections whose wiring has `synapses`."""
        raise NotImplementedError(f"connections of type {self.type} have no synapses")

    @abstractmethod
    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Return the wiring, or None after `report(key, message, found=, expected=, hint=)` of an error.

        `pre` and `post` are guaranteed to exist.
        """

    @abstractmethod
    def deliver(
        self,
        kernels: ArrayKernels,
        wiring: Wiring,
        activity: Array,
        border: Border,
        patches: Array | None,
    ) -> Array:
        """Return the input of the post layer, `[lanes, ny, nx, nf]`, without `strength` and sign applied.

        `patches` are those of its weights, or the arrays of its synapses by name.
        """


class WeightOwner(Protocol):
    """A connection with weights of its own; see `connections/conv.py`."""

    @property
    def pre(self) -> str:
        """Layer the activity comes from."""

    @property
    def post(self) -> str:
        """Layer it goes to."""

    @property
    def mode(self) -> str:
        """The weight mode."""

    @property
    def init(self) -> Initial:
        """How the weights start."""

    @property
    def normalize(self) -> Normalize | None:
        """What is done to them at the start and after each update."""

    @property
    def learn(self) -> Learning | None:
        """The learning rule, None where they stay."""

    @property
    def decorrelate(self) -> float:
        """How far features are pushed apart at each update."""

    @property
    def revive(self) -> Any:
        """When and how dead features start again (`learning.revive.Revive`), or None."""

    def link(self, layers: Mapping[str, Layer]) -> Link:
        """Return the link between the two layers; raises GeometryError when they do not go together."""

    def weights(self, layers: Mapping[str, Layer]) -> Variable:
        """Declare the weights."""


class Reading(Protocol):
    """A probe's read access to the network at the end of a step."""

    def __call__(self, layer: str, variable: str) -> Array:
        """Return a variable of a layer, `[lanes, ny, nx, nf]`; `A` is the activity."""

    def through(self, connection: str, activity: Array) -> Array:
        """Return what a connection delivers for the given activity, with its present weights.

        The activity has the shape of the pre layer, the result that of the post layer. The strength of the
        connection is applied, the sign of its channel is not.
        """


class Probe(Part):
    """A measurement of one or more numbers per slice, recorded under `/probes/<name>/`."""

    kind: ClassVar[str] = "probe"
    answers = ("norms", "splittable", "penalty")
    type: str
    every: Schedule = STEP
    """Measurement schedule: at the end of these steps."""
    offset: Offset = 0
    """Delay of the measurements, in steps; with `every = "display"`, 1 is the first step of each display."""

    @property
    def splittable(self) -> bool:
        """Whether it is a sum over features, to which ranks with some of them can contribute."""
        return False

    @property
    def penalty(self) -> tuple[str, Penalty] | None:
        """The code layer whose sparsity it takes for penalised, and how; None where it does not."""
        return None

    def split_share(self, found: Mapping[str, Array], ranks: int) -> Mapping[str, Array]:
        """Return what one of `ranks` ranks contributes, from what it measured on its features."""
        return found

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return each quantity as a sum of norms, which compiled steps measure inside.

        Raises NotSuitable where a quantity is more than that. `layers` are those of the network.
        """
        raise NotSuitable(f"probes of type {self.type} measure more than norms")

    @abstractmethod
    def layers(self) -> Sequence[str]:
        """Return the names of the layers it reads, which are checked before the run."""

    def masks(self) -> Sequence[tuple[str, str]]:
        """Return pairs of names (layer, mask) for the layers of which it reads only the units in a mask."""
        return ()

    def connections(self) -> Sequence[str]:
        """Return the names of the connections it reads through; by default none."""
        return ()

    @abstractmethod
    def quantities(self) -> Mapping[str, str]:
        """Return the measured quantities: name to a one-line description with units."""

    @abstractmethod
    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return each quantity as float64 `[lanes]`; `read(layer, variable)` gives `[lanes, ny, nx, nf]`."""
