"""Abstract parts of a network: layers, sources, connections and probes.

A part is both an immutable table of a params file (its fields) and the behaviour it stands for (its methods).
It never holds simulation arrays: it declares them as `Variable`s, and the engine allocates them and passes
them in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from petabatch.spec.model import Count, Finite, Flag, Index, Part
from petabatch.spec.schedule import Every, Schedule, fires
from petabatch.variable import Array, Border, Variable

if TYPE_CHECKING:
    from petabatch.geometry import Link
    from petabatch.kernels.array import ArrayKernels

Shape = tuple[Count, Count, Count]
"""`[ny, nx, nf]`: rows, columns, features."""

DISPLAY = Every(1, "displays")
STEP = Every(1, "steps")
NEVER = Every(0)


@dataclass(frozen=True)
class StepContext:
    """Context of one step of one lane, passed to `Layer.update`."""

    step: int
    """Number of the step being made, from 1."""
    dt: float
    """Time step."""
    slices: range
    """Global slice numbers along the leading axis of the lane's arrays."""
    seed: int
    """Seed of the run."""
    xp: Any = np
    """Array module of the lane's arrays, numpy or cupy."""
    display: int = 1
    """Display period, in steps."""
    layer: str = ""
    """Name of the layer that is updated."""


Moment = StepContext  # the former name, which existing plug-ins import


class Layer(Part):
    """A layer of units `[batch, ny, nx, nf]`: state variables, input channels, and an update rule."""

    kind: ClassVar[str] = "layer"
    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (0, -1.0)}
    """Channel name to (buffer, sign); `update` receives one summed array per buffer."""

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
    offset: int = 0
    """Delay of updates and resets, in steps; with `every = "display"`, -1 is the last step of each
    display."""
    reset: Schedule = NEVER
    """Reset schedule: the variables are set to their initial values in the first step of each such period.
    The activity of the previous step, which connections may still deliver, is not reset."""
    reset_to: str | None = None
    """Layer whose membrane potential (or activity, if it has none) the potential is reset to. The other
    variables are then not reset (PetaVision's resetStateOnTrigger)."""

    @property
    def steady(self) -> bool:
        """Whether the layer updates in every step and is never reset."""
        return self.every == STEP and self.reset.count == 0

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

    @abstractmethod
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
        All are `[lanes, ny, nx, nf]`.
        """

    def prepare(self, state: Mapping[str, Array], activity: Array) -> None:
        """Set the initial state (step 0) in place; by default variables keep their declared values."""


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


@dataclass(frozen=True)
class Wiring:
    """The wiring of a connection: the link between its two layers, and the owner of its weights."""

    link: Link | None = None
    weights: str | None = None
    """Name of the connection that owns the weights."""


class Connection(Part):
    """A connection from layer `pre` to a channel of layer `post`."""

    kind: ClassVar[str] = "connection"
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
        """Return the input of the post layer, `[lanes, ny, nx, nf]`, without `strength` and sign applied."""


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
    type: str
    every: Schedule = STEP
    """Measurement schedule: at the end of these steps."""
    offset: int = 0
    """Delay of the measurements, in steps; with `every = "display"`, 1 is the first step of each display."""

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
