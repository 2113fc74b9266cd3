"""The abstract parts a network is made of. Concrete ones live one to a file in their own folders.

A part is at once the frozen table a user writes (its fields) and the behaviour behind it (its methods).
It never holds simulation arrays: those are declared as `Variable`s, allocated by the engine, and handed in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from petabatch.spec.compiled import CompiledRule, NotSuitable, SumWeights
from petabatch.spec.model import Count, Finite, Flag, Index, Part
from petabatch.spec.schedule import DISPLAY as DISPLAY
from petabatch.spec.schedule import NEVER as NEVER
from petabatch.spec.schedule import STEP as STEP
from petabatch.spec.schedule import Every, Schedule, fires
from petabatch.spec.weights import Initial, Learning, Normalize
from petabatch.variable import Array, Border, Variable

if TYPE_CHECKING:
    from petabatch.geometry import Link
    from petabatch.kernels.array import ArrayKernels

Operation = Literal["copy", "forward", "transposed", "other"]
"""Of a connection: the activity as it is, through patches of weights, through them the other way, or else."""

Shape = tuple[Count, Count, Count]
"""`[ny, nx, nf]`: rows, columns, features."""


@dataclass(frozen=True)
class StepContext:
    """What a step knows of itself: the number of the step being made, and who is in the lane."""

    step: int
    dt: float
    slices: range
    """Global slice numbers of the lane's leading axis."""
    seed: int
    xp: Any = np
    """The array module of the lane's arrays: numpy or cupy."""
    display: int = 1
    """Steps of a display."""
    layer: str = ""
    """Name of the layer that is updated."""


class Layer(Part):
    """A layer `[batch, ny, nx, nf]`: state variables, channels that gather input, and an update rule."""

    kind: ClassVar[str] = "layer"
    answers = ("compiled_rule", "graph_safe", "splittable", "sums_input")
    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (0, -1.0)}
    """Channel name to (buffer, sign); `update` gets one summed array per buffer."""

    graph_safe: ClassVar[bool] = False
    """`update` launches the same kernels on the same arrays in each step, so that steps can be captured and
    replayed as CUDA graphs."""

    type: str
    shape: Shape
    """Rows, columns, features: `[ny, nx, nf]`."""
    phase: Index | None = None
    """Pin the level of this layer; by default it is derived from the connections."""
    border: Literal["zero", "mirror", "image"] | Finite = "zero"
    """What connections see beyond the edge: zeros, the mirrored layer, a constant value, or, of an `input`
    layer, its image, which then must be larger than the layer."""
    every: Schedule = STEP
    """When the layer updates: in the first step of each such period, as an input of this period shows a new
    image. In between, its activity and state stand (updateOnlyOnTrigger of the original)."""
    offset: int = 0
    """Steps by which it updates and is reset later; with `display`, -1 is the last step of each display."""
    reset: Schedule = NEVER
    """When its variables start anew from their initial values: in the first step of each such period. The
    activity of the step before is still that of the last image."""
    reset_to: str | None = None
    """Instead of all variables the potential alone starts anew, from the membrane potential of this layer, or
    its activity if it has none (resetStateOnTrigger of the original)."""

    @property
    def steady(self) -> bool:
        """Say whether it updates in every step and is never reset."""
        return self.every == STEP and self.reset.count == 0

    @property
    def static(self) -> bool:
        """Say whether its activity changes by nothing but the images that the engine reads."""
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
    def sums_input(self) -> bool:
        """Say whether A is the sum of the input and nothing else."""
        return False

    @property
    def splittable(self) -> bool:
        """Say whether its features can be split over ranks: a unit depends on no other of its layer."""
        return False

    @property
    def host_numbers(self) -> bool:
        """Say whether `update` sends numbers from the host, as random ones, in each step."""
        return False

    def compiled_rule(self) -> CompiledRule:
        """Return the update as compiled code makes it; raises NotSuitable where there is none."""
        raise NotSuitable(f"layers of type {self.type} have no compiled rule")

    def due(self, step: int, display: int) -> bool:
        """Say whether the layer updates in `step`."""
        return fires(self.every.steps(display), step, 1 + self.offset)

    def resets(self, step: int, display: int) -> bool:
        """Say whether the layer's variables start anew in `step`."""
        return fires(self.reset.steps(display), step, 1 + self.offset)

    def restart(self, state: Mapping[str, Array], potential: Array | None) -> None:
        """Start anew in place: all variables from their initial values, or `V` alone from `potential`.

        (`HyPerInternalStateBuffer` of the original has nothing but V replaced: the pull of its momentum LCA,
        conductances and thresholds stand.)
        """
        if potential is not None:
            state["V"][...] = potential
            return
        for variable in self.variables():
            state[variable.name][...] = variable.initial

    def variables(self) -> Sequence[Variable]:
        """Declare state beyond the activity `A`; shapes without the leading batch axis."""
        return ()

    @abstractmethod
    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make one step in place.

        `state` holds the declared variables, `drive` the summed input of each buffer, `previous` the
        layer's activity of the step before and `activity` receives the new one (they may be one array).
        All are `[lanes, ny, nx, nf]`.
        """

    def prepare(self, state: Mapping[str, Array], activity: Array) -> None:
        """Set the initial state (step 0) in place; by default variables keep their declared value."""


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
    """Where an input layer's images come from."""

    kind: ClassVar[str] = "source"
    type: str

    def paths(self) -> Sequence[str]:
        """Name the files that it reads, in order: a resumed run compares them with those it began with."""
        return ()

    @abstractmethod
    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return `read(slice, item) -> float32 [ny, nx, nf]`, a pure function of global slice and item.

        Thread-safe. `item` counts the displays of that slice from 0. Opens and checks the data once.
        Raises InputError when it is missing, unreadable, or of a shape that cannot fill the layer.
        """


@dataclass(frozen=True)
class Wiring:
    """What a connection needs to deliver: the link of its two layers and whose weights it uses."""

    link: Link | None = None
    weights: str | None = None
    """Name of the connection that owns the weights."""


class Connection(Part):
    """Carries the activity of layer `pre` into a channel of layer `post`."""

    kind: ClassVar[str] = "connection"
    answers = ("operation",)
    type: str
    pre: str
    """Layer the activity comes from."""
    post: str
    """Layer it goes to."""
    channel: str = "exc"
    """Channel of the post layer, usually `exc` (added) or `inh` (subtracted); `none` delivers nothing."""
    strength: Finite = 1.0
    """Factor on what is delivered."""
    delay: Index = 0
    """Extra steps before the activity arrives."""
    feedback: Flag = False
    """This connection closes a cycle and carries the activity of the step before."""

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

    @abstractmethod
    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Return the wiring, or None after `report(key, message, found=, expected=, hint=)`.

        `pre` and `post` are known to exist when this is called.
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
        """Return what arrives at the post layer, `[lanes, ny, nx, nf]`, before `strength` and sign."""


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
    """What a probe sees of the network at the end of a step."""

    def __call__(self, layer: str, variable: str) -> Array:
        """Return a variable of a layer, `[lanes, ny, nx, nf]`; `A` is the activity."""

    def through(self, connection: str, activity: Array) -> Array:
        """Return what a connection would deliver of this activity, with its weights of now.

        The activity is shaped like the pre layer, the result like the post layer; the sign of the channel is
        not applied, the connection's strength is.
        """


class Probe(Part):
    """Measures one number or more per slice, and writes them to `/probes/<name>/`."""

    kind: ClassVar[str] = "probe"
    answers = ("from_step_sums", "splittable")
    type: str
    every: Schedule = STEP
    """When the probe measures: at the end of these steps."""
    offset: int = 0
    """Steps by which it measures later; with `every = "display"`, 1 means after the first step of each."""

    @property
    def splittable(self) -> bool:
        """Say whether it is a sum over features, to which ranks with some of them can contribute."""
        return False

    def split_share(self, found: Mapping[str, Array], ranks: int) -> Mapping[str, Array]:
        """Return what one of `ranks` ranks contributes, from what it measured on its features."""
        return found

    def from_step_sums(self, error: str, code: str, units: int) -> Mapping[str, SumWeights]:
        """Return each quantity as sums that compiled loops of these two layers make; `units` of the code.

        Raises NotSuitable where it needs more.
        """
        raise NotSuitable(f"probes of type {self.type} measure the layers themselves")

    @abstractmethod
    def layers(self) -> Sequence[str]:
        """Name the layers it reads, so that a dangling name is found before the run."""

    def masks(self) -> Sequence[tuple[str, str]]:
        """Name the layers it reads in part and, beside each, the layer that says which part."""
        return ()

    def connections(self) -> Sequence[str]:
        """Name the connections it reads through; by default none."""
        return ()

    @abstractmethod
    def quantities(self) -> Mapping[str, str]:
        """Name what it measures: quantity to a one-line description with units."""

    @abstractmethod
    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return each quantity as float64 `[lanes]`; `read(layer, variable)` gives `[lanes, ny, nx, nf]`."""
