"""Layers: units with state variables, input channels and an update rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from petabatch.clock import fires
from petabatch.kernels.rows import Draw
from petabatch.kernels.transfer import Penalty as Penalty
from petabatch.spec.capabilities import Capabilities, capabilities_of, check_declared
from petabatch.spec.compiled import CompiledRule, NotSuitable
from petabatch.spec.model import LARGEST, Count, Finite, Index, Offset, OneOf, Part
from petabatch.spec.parts.source import ImageLayer
from petabatch.spec.parts.step_context import StepContext
from petabatch.spec.rows import row_function, update_by_row
from petabatch.spec.schedule import NEVER, STEP, Schedule
from petabatch.spec.weights import Initial
from petabatch.variable import Array, Variable


def _bounded(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if math.prod(shape) > LARGEST:
        raise PydanticCustomError(
            "too_many_units",
            "the layer has too many units",
            {"expected": f"rows x columns x features of at most {LARGEST}"},
        )
    return shape


def _of_three(shape: Any) -> Any:
    """Raise an error for a number, or for one of an array, which is that of units without positions."""
    one = shape[0] if isinstance(shape, list | tuple) and len(shape) == 1 else shape
    if type(one) is int:
        details = {"got": repr(shape), "expected": "an array of 3 values: rows, columns, features"}
        hint = f"units without positions have the shape [1, 1, {one}]"
        raise PydanticCustomError("shape", "the value has the wrong type", {**details, "hint": hint})
    return shape


Shape = Annotated[tuple[Count, Count, Count], AfterValidator(_bounded), BeforeValidator(_of_three)]
"""`[ny, nx, nf]`: rows, columns, features."""


class Stability(NamedTuple):
    """The step size of a layer's dynamics and its limit."""

    step: float
    """k = 1 - exp(-dt / tau)."""
    largest: float
    """The step size above which the layer may diverge."""
    speed: float = 1.0
    """How many times as fast as the LCA it converges, about."""


class Layer(Part):
    """A layer of units `[batch, ny, nx, nf]`: state variables, input channels, and an update rule."""

    kind: ClassVar[str] = "layer"
    answers = (
        "static",
        "constant",
        "silent",
        "host_numbers",
        "compiled_rule",
        "row",
        "linear_gain",
        "stability",
        "penalty",
        "refused",
        "plain",
    )
    channels: ClassVar[Mapping[str, tuple[int, float]]] = {"exc": (0, 1.0), "inh": (0, -1.0)}
    """Channel name to (buffer, sign); `update` receives one summed array per buffer."""

    targets: ClassVar[bool] = False
    """Connections name what they deliver to by `target`, not by `channel`."""

    later: ClassVar[bool] = False
    """Its activity is delivered in the next step at the earliest, so that its connections close no cycle."""

    capabilities: ClassVar[Capabilities] = Capabilities()
    """What can be done with layers of exactly this class; others declare their own."""

    diverges: ClassVar[str] = (
        "the step size may be too large for these weights: lower run.dt or raise tau (`petabatch check` "
        "shows the limit), or lower learn.rate"
    )
    """Hint where numbers of the layer are no longer finite."""

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
    """Reset schedule: the variables are set to their initial values in the first step of each such period in
    which the layer is updated; where that is none of its updates (`every`), the reset is not made, and
    `check` says how often it is. The activity of the previous step, which connections may still deliver, is
    not reset. Resets by films (`order.reset`) are made at the next update."""
    start: dict[str, Annotated[Initial, OneOf(Initial)]] = Field(default_factory=dict)
    """State variables in step 0, by name, initialised as weights are: `start = { V = { type = "uniform",
    high = 0.1, per_slice = true } }`; the activity `A` of layers without a potential. Other variables start,
    and all are reset, at their initial values."""
    batch: Literal[1] | None = None
    """1: the activity is the same in all slices, and held once for all. For layers of type `constant`, and
    of type `input` with `every = "never"` and a source with `slices = "same"`."""
    reset_to: str | None = None
    """Layer whose membrane potential (or activity, if it has none) the potential is reset to. The other
    variables are then not reset (PetaVision's resetStateOnTrigger)."""

    @property
    def graph_safe(self) -> bool:
        """Whether steps can be replayed; see `Capabilities`."""
        return capabilities_of(type(self)).graph_safe

    @property
    def local(self) -> bool:
        """Whether each rank can have some rows; see `Capabilities`."""
        return capabilities_of(type(self)).local

    @property
    def splittable(self) -> bool:
        """Whether each rank can have some features; see `Capabilities`."""
        return capabilities_of(type(self)).splittable

    @property
    def buffers(self) -> int:
        """Number of buffers that its channels are summed in."""
        return 1 + max((buffer for buffer, _ in self.channels.values()), default=0)

    def plain(self, keys: Sequence[str]) -> bool:
        """Return whether a number under `keys` is valid if it is finite, and changes numbers of steps alone.

        Points of a sweep that differ in such numbers are checked, and their steps planned, once for all.
        """
        return False

    @property
    def steady(self) -> bool:
        """Whether the layer updates in every step and is never reset."""
        return self.every == STEP and self.restarts.count == 0

    @property
    def restarts(self) -> Schedule:
        """The schedule of its resets."""
        return self.reset

    @property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """The variables in step 0 that are not at their initial values: their keys and initialisers."""
        return {name: (f"start.{name}", initial) for name, initial in self.start.items()}

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
    def constant(self) -> float | None:
        """The activity of all units in all steps, None where it is not a constant."""
        return None

    @property
    def silent(self) -> bool:
        """Whether its activity stays 0 as long as its input does."""
        return False

    @property
    def constants(self) -> Collection[str]:
        """Names of its parameters, which are variables where each unit has its own, and no step changes."""
        return ()

    @property
    def unused(self) -> Mapping[str, str]:
        """The keys that are given and have no effect, each with the circumstance."""
        return {}

    @property
    def linear_gain(self) -> float | None:
        """g where A = g * input and nothing else, None where the layer is not linear."""
        return None

    def stability(self, dt: float, curvature: float) -> Stability | None:
        """Return the step size of the layer's dynamics and its limit, None where there is no such limit.

        `curvature` is L, the largest eigenvalue of how the layer's activity reduces its own drive.
        """
        return None

    def leaks(self, dt: float) -> Mapping[str, float]:
        """Return the factors by which a step multiplies what is left of variables that decay, by variable.

        Those that the update rounds to the precision of the run: `check` says what that makes of slow ones.
        """
        return {}

    def remedy(self, variable: str) -> str:
        """Return the hint where a variable of the layer, or its activity `A`, is no longer finite."""
        return self.diverges

    def after_reset(
        self, state: Mapping[str, np.ndarray], activity: np.ndarray, step: int, dt: float
    ) -> Mapping[str, np.ndarray]:
        """Return the variables that the next step begins with another value of, where units spiked in `step`.

        Whether they are finite is judged of these values. By default a layer has reset its units already.
        """
        return {}

    def remarks(self, dt: float) -> Sequence[str]:
        """Return what `check` says of its dynamics, a line each."""
        return ()

    @property
    def generated(self) -> str:
        """The source of what was generated for it, which `check --explain` prints."""
        return ""

    @property
    def derived(self) -> Mapping[str, Any]:
        """What was derived of it that a run keeps, so that resuming does not derive it again, for JSON."""
        return {}

    def refused(self, drive: Sequence[float | None], dt: float, steps: int) -> str:
        """Return why its numbers do not stay finite under this drive, "" where they do or it is not known.

        `drive` is what arrives in each buffer in each of so many steps, None where that is not a constant.
        """
        return ""

    @property
    def penalty(self) -> Penalty | None:
        """The penalty of the energy that its dynamics minimise, None where none is known."""
        return None

    @property
    def spiking(self) -> bool:
        """Whether few of its units are active in a step, as those of neurons that spike are."""
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
        """Refuse a type of layers without an update, or with capabilities that are not declared."""
        super().__pydantic_init_subclass__(**kwargs)
        check_declared(cls)
        named = isinstance(cls.model_fields["type"].default, str)
        by_row = any(base.__dict__.get("row") for base in cls.__mro__)
        if named and cls.update is Layer.update and not by_row:
            raise TypeError(f"the layer {cls.__name__} has neither `update` nor `row`")

    def due(self, step: int, display: int) -> bool:
        """Return whether the layer updates in `step`."""
        return fires(self.every.steps(display), step, 1 + self.offset)

    def resets(self, step: int, display: int) -> bool:
        """Return whether the layer is reset in `step`."""
        return fires(self.restarts.steps(display), step, 1 + self.offset)

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

    def settle(self, state: Mapping[str, Array], code: Array, drive: Array) -> None:
        """Set the variables in place to those with which it rests at the activity `code` and its drive.

        Layers that minimise the LASSO (`penalty`) do so; the activity itself has been set.
        """
        raise NotSuitable(f"layers of type {self.type} have no known rest")

    def variables(self) -> Sequence[Variable]:
        """Declare the state variables other than the activity `A`; shapes omit the leading batch axis."""
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

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Set the initial state (step 0) in place; by default variables keep their declared values.

        `dt` is the time step of these slices. `state` also has what connections of type `potential` deliver,
        by their target or channel.
        """


class Controller(Protocol):
    """The controller of a layer's time scale; see `layers/timescale.py`."""

    @property
    def energy(self) -> str:
        """Name of the energy probe that it follows."""

    def control(self, state: Mapping[str, Array], energy: np.ndarray) -> None:
        """Set the time scale of the coming step from `energy`, float64 `[lanes]`, in place."""
