"""The whole params file as one frozen model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.duration import Duration
from petabatch.spec.model import Count, Flag, Index, Model, OneOf, Positive
from petabatch.spec.parts import DISPLAY, Connection, Layer, Probe
from petabatch.spec.paths import FilePath
from petabatch.spec.schedule import Every, Schedule


class Until(Model):
    """`[run.until]`: a slice whose code is near enough to its optimum ends its display and rests.

    Its whole state stands until the display's last step, at which output and learning see the finished code;
    it takes its next image at once, unless it has to wait for weights that all slices learn together. Steps
    made and the gap reached are recorded as `/probes/until`.
    """

    gap: Positive
    """Relative duality gap at which a slice is done: its energy is at most this fraction of it too high."""
    probe: str | None = None
    """The probe of type `optimality` that says so; by default the only one."""
    every: Count = 25
    """Steps after which it is measured again; also in the last step of a display."""


class Run(Model):
    """`[run]`: how long, how many slices, and on what."""

    batch: Count = 1
    """Slices in the whole run, over all ranks."""
    display: Count = 1
    """Steps for which one input is shown."""
    displays: Count | None = None
    """Length of the run in displays; give this or `steps`."""
    steps: Count | None = None
    """Length of the run in steps; give this or `displays`."""
    dt: Positive = 1.0
    """Duration of a step, in the unit of every `tau`."""
    seed: Index = 1
    """Every random number of the run derives from it."""
    precision: Literal["float32", "float64"] = "float32"
    threads: Count | None = None
    """Threads of each rank; by default the cores this process may use. Never changes a result."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where the steps are made: on the cores of this machine, or on its NVIDIA GPUs, one for each rank."""
    kernel: Literal["auto", "array", "dense", "lazy", "display", "step"] = "auto"
    """Which kernels make the steps: the fast ones where they apply, or the readable reference, `array`. On
    the CPU the fast ones are `lazy` (silent units are not computed before they could become active: exact,
    and for layers of type lca) where it pays, else `dense`; with `auto`, slices that begin an image with more
    than 15 % of their units active compute all while it is shown. On a GPU they are `display` (a slice
    stays on a multiprocessor for a whole display) where a slice is small enough, else `step`."""
    tf32: Flag = False
    """On a GPU: let tensor cores make the drive of `kernel = "step"`, which `auto` then takes, and the matrix
    products of `array`. They round factors to 10 bits and add up in float32, and are faster; all else, and
    without this all, is float32."""
    reduce: Literal["exact", "overlapped"] = "exact"
    """How weight changes are summed over slices. `exact`: in integers, so that any number of ranks gives the
    same bits. `overlapped`: the same sum, overlapped with the next steps and applied one update late."""
    verify: Count | None = None
    """Compare the weights of all ranks every so many updates, and stop when they differ."""
    until: Until | None = None
    """End a slice's display early, when its code is near enough to its optimum; `display` is the longest."""
    wall_limit: Duration | None = None
    """Stop with a checkpoint after this time, as `"11h50m"`."""
    stuck_after: Duration = "5m"
    """End all ranks when one makes no progress for this time in reading, writing or compiling. In steps like
    those it has made before, and when it does not answer at all, a twentieth of it is enough."""
    start_from: FilePath | None = None
    """Run directory (its newest checkpoint) or checkpoint file of another run to go on from. Its steps count:
    schedules and images go on, and the run's length includes them."""
    batch_change: Literal["error", "cycle", "reset"] = "error"
    """What slices begin with when `batch` is not that of `start_from`. `error`: nothing; it is refused.
    `cycle`: slice i with the state of slice i modulo the old batch. `reset`: slices beyond the old batch as
    at step 0. Weights that all slices share are taken over in any case."""

    @field_validator("reduce", mode="before")
    @classmethod
    def _fast_was_removed(cls, reduce: object) -> object:
        if reduce == "fast":
            raise PydanticCustomError(
                "reduce_fast",
                "this is not one of the choices",
                {
                    "expected": "exact or overlapped",
                    "hint": '"fast" was removed: use "exact", which costs the same and gives the same bits '
                    "on any number of ranks",
                },
            )
        return reduce

    @model_validator(mode="after")
    def _one_length(self) -> Run:
        if (self.displays is None) == (self.steps is None):
            raise PydanticCustomError(
                "run_length",
                "the length of the run is given twice" if self.steps else "the length of the run is missing",
                {"expected": "either `displays` or `steps`"},
            )
        if self.until is not None and self.device == "gpu":
            raise PydanticCustomError(
                "until_gpu",
                "displays end slice by slice, and a GPU makes the steps of all slices together",
                {"expected": 'device = "cpu", or no `until`'},
            )
        if self.kernel in ("display", "step") and self.device == "cpu":
            raise PydanticCustomError(
                "gpu_kernel",
                "this kernel runs on a GPU",
                {"got": f'kernel = "{self.kernel}", device = "cpu"', "expected": "auto or array, or a GPU"},
            )
        if self.kernel in ("dense", "lazy") and self.device == "gpu":
            raise PydanticCustomError(
                "cpu_kernel",
                "this kernel runs on the CPU",
                {"got": f'kernel = "{self.kernel}"', "expected": "auto, array, display or step"},
            )
        return self

    @property
    def length(self) -> int:
        """Steps in the whole run."""
        return self.steps if self.steps is not None else self.display * (self.displays or 0)


class Parallel(Model):
    """`[parallel]`: how ranks are arranged. They are `batch` times `features`."""

    batch: Count | None = None
    """Ranks over which the slices are spread; by default as many as there are."""
    features: Count = 1
    """Ranks that share each slice: every one holds a part of the features of the layers of type `lca`, and
    their weights. For layers too large for one rank; it costs a message in each step."""


class LayerOutput(Model):
    """`[output.layers.NAME]`: what is written of a layer, and when."""

    every: Schedule = DISPLAY
    variables: tuple[str, ...] = ("A",)
    """`A` is the activity; others are the layer type's own, as `V`."""


class ConnectionOutput(Model):
    """`[output.connections.NAME]`: when the weights are written; the first time is before step 1."""

    every: Schedule = DISPLAY
    variables: tuple[Literal["weights", "usage"], ...] = ("weights",)
    """`usage` says how often each pre feature was active at the last update, over positions and slices."""


class Output(Model):
    """`[output]`: what goes to the run file besides the probes."""

    layers: dict[str, LayerOutput] = Field(default_factory=dict)
    connections: dict[str, ConnectionOutput] = Field(default_factory=dict)
    flush: Schedule | None = None
    """When what was recorded is put on disk as an immutable segment; by default every 10 displays, or
    sooner where that would hold too much in memory."""


class Checkpoint(Model):
    """`[checkpoint]`: when the whole state is saved. One is always written at the end and when stopped."""

    every: Schedule = Every(50, "displays")
    keep: Count = 2
    """Checkpoints kept; the newest ones."""


class Network(Model):
    """A complete description: what a params file says, or what Python code builds from the same models."""

    title: str = ""
    plugins: tuple[str, ...] = ()
    """Python files, relative to the params file, that define further layers, sources, probes and so on."""
    run: Run
    layers: dict[str, Annotated[Layer, OneOf(Layer)]]
    connections: dict[str, Annotated[Connection, OneOf(Connection)]] = Field(default_factory=dict)
    probes: dict[str, Annotated[Probe, OneOf(Probe)]] = Field(default_factory=dict)
    output: Output = Output()
    checkpoint: Checkpoint = Checkpoint()
    parallel: Parallel = Parallel()
