"""The model of a params file: its top-level tables."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from petabatch.clock import Clock
from petabatch.spec.duration import Duration
from petabatch.spec.frozen import FROZEN, FrozenDict
from petabatch.spec.model import LARGEST, Count, Finite, Flag, Index, Model, OneOf, Positive
from petabatch.spec.over_time import OverTime
from petabatch.spec.parts import DISPLAY, Connection, Layer, Probe, Source
from petabatch.spec.paths import FilePath
from petabatch.spec.schedule import Every, Schedule
from petabatch.spec.sweep import Sweep
from petabatch.spec.values_by_path import values_by_path


class Until(Model):
    """Early stopping of the display period, in each slice, once its code is close enough to the optimum.

    The slice keeps its state until the last step of the display period, when output and learning see the
    converged code. It proceeds to its next image at once, unless it has to wait for weights that are shared
    by all slices. The number of steps made and the final gap are recorded under `/probes/until`.
    """

    gap: Positive
    """Tolerance on the relative duality gap: a slice stops when its energy exceeds the minimum by at most
    this fraction of the energy."""
    probe: str | None = None
    """Name of the probe of type `optimality` that measures the gap; may be omitted if there is only one."""
    every: Count = 25
    """Interval between two evaluations of the gap, in steps; it is also evaluated in the last step of a
    display period."""
    solver: Literal["steps", "homotopy"] = "steps"
    """What leads to the gap: `steps` alone; or `homotopy`, for codes of one position, with patches as large
    as the image and one dictionary: each display begins at the exact code of its image, which
    `petabatch.encode` would return, with the layer at rest. The gap is then evaluated after each step,
    whatever `every` is: a display takes one step, or more where rounding has led the solver astray. Codes of
    both are within the gap of the minimum, but are other numbers."""

    @property
    def interval(self) -> int:
        """Steps between two evaluations of the gap."""
        return self.every if self.solver == "steps" else 1


class Run(Model):
    """Length of the run, batch size, numerical method and hardware."""

    batch: Count = 1
    """Batch size: the number of slices, over all ranks; with `[sweep]`, of each point."""
    display: Count = 1
    """Display period: the number of steps for which each input is shown."""
    displays: Count | None = None
    """Length of the run in display periods; give either this or `steps`."""
    steps: Count | None = None
    """Length of the run in steps; give either this or `displays`."""
    dt: Positive = 1.0
    """Time step, in the same unit as every `tau`."""
    unit: Literal["s", "ms", "us"] | None = None
    """The unit of `dt` and of all other times, for figures, tables and `check`, which then give times in it
    and rates in Hz. It changes no number: neither of the network nor of its files."""
    seed: Index = 1
    """Seed of all random numbers of the run."""
    precision: Literal["float32", "float64"] = "float32"
    """Floating-point precision of the state and the weights. In float32 the factor by which a step multiplies
    a variable that decays is rounded, in layers of type `lca`, `heavy_ball` and `leaky_integrator` and with
    the methods `exact` and `exponential_euler`: time constants of 10^4 steps and more may be off by more than
    0.01 %, of 10^6 steps by 3 %, and `check` says by how much. With other methods the variable itself is
    rounded: increments below about 10^-7 of its value are lost, so that slow ones may stand still; `check`
    does not look for these. On the CPU steps are compiled in both; in float64 all units of a code are
    computed, and `check` says what it costs. What sources show is float32 in both."""
    threads: Count | None = None
    """Number of threads per rank; by default the number of cores available to the process. Does not affect
    results."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Device that runs the simulation: the CPU cores, or NVIDIA GPUs, one per rank."""
    kernel: Literal["auto", "array", "dense", "lazy", "display", "step"] = "auto"
    """Kernel that advances the network. `auto`: the fastest one that supports the network. `array`: the
    readable reference implementation, on CPU and GPU. On the CPU, `dense` computes every unit in every step;
    `lazy`, for layers of type `lca` in any network, computes inactive units only when they could cross their
    threshold: no unit wakes too late, and values differ from those of `dense` in the last place. With `auto`,
    all units of a layer are computed while an image is displayed at whose start more than 15 % of them are
    active. On the GPU, `display` keeps a slice on one multiprocessor for a whole display period, if the slice
    is small enough; `step` advances all slices together, one step at a time."""
    tf32: Flag = False
    """On the GPU, compute the matrix products of `kernel = "step"` (which `auto` then selects) and of `array`
    on tensor cores in TF32: factors are rounded to 10 bits, sums are accumulated in float32. Faster, but
    less precise. All other computations remain in float32."""
    reduce: Literal["exact", "overlapped"] = "exact"
    """Summation of weight changes over slices. `exact`: in integers, bit-identical on any number of ranks.
    `overlapped`: exact, but concurrent with the following steps and applied one
    update late."""
    verify: Count | None = None
    """Interval, in updates, at which the weights of all ranks are compared; the run stops if they differ."""
    until: Until | None = None
    """Early stopping: end the display period of a slice once its code has converged; `display` is the
    maximum."""
    pool: Flag = False
    """Slices are items of a pool: few are held at once, one for each thread or as many as are advanced
    together, and each makes way for the next when it has reached the end of the run, on any thread and rank.
    For data sets that are coded with frozen weights, with as many slices as images; finished slices are
    [committed](experiments.md#more-points-than-fit). Each slice has the bits that it has without `pool`."""
    wall_limit: Duration | None = None
    """Wall-clock limit after which the run writes a checkpoint and stops, such as `"11h50m"`; in memory it
    stops after a whole step."""
    stuck_after: Duration = "5m"
    """Hang detection: terminate all ranks if one makes no progress for this time while reading, writing or
    compiling. For steps similar to earlier ones, and for ranks whose heartbeat stops, the limit is a
    twentieth of this time."""
    start_from: FilePath | None = None
    """Run directory (its newest checkpoint) or checkpoint file of another run whose state to start from:
    weights, synapses and variables. Numbers are those of this file, also parameters of each unit. Its steps
    are counted: schedules and the sequence of images continue, and the length of the run includes them."""
    batch_change: Literal["error", "cycle", "reset"] = "error"
    """Initial state of the slices if `batch` differs from that of `start_from`. `error`: raise an error.
    `cycle`: slice i starts from the state of slice i modulo the old batch size. `reset`: slices beyond the
    old batch start from their initial values. Weights shared by all slices are loaded in any case."""

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
    def _has_one_length(self) -> Run:
        if (self.displays is None) == (self.steps is None):
            raise PydanticCustomError(
                "run_length",
                "the length of the run is given twice" if self.steps else "the length of the run is missing",
                {"expected": "either `displays` or `steps`"},
            )
        if self.length > LARGEST:
            raise PydanticCustomError(
                "run_too_long",
                "the run has too many steps",
                {"got": f"{self.length} steps", "expected": f"at most {LARGEST}"},
            )
        return self

    @model_validator(mode="after")
    def _suits_its_device(self) -> Run:
        if self.kernel in ("display", "step") and self.device == "cpu":
            raise PydanticCustomError(
                "gpu_kernel",
                "this kernel runs on a GPU",
                {
                    "got": f'kernel = "{self.kernel}", device = "cpu"',
                    "expected": 'auto, array, dense or lazy, or device = "gpu"',
                },
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
        return self.steps if self.steps is not None else self.clock.length(self.displays or 0)

    @property
    def clock(self) -> Clock:
        """What converts between steps, displays and t."""
        return Clock(self.display, self.dt)


class Parallel(Model):
    """Decomposition over MPI ranks: the number of ranks is `batch` times `features` times `rows`."""

    batch: Count | None = None
    """Number of ranks over which the slices are distributed; by default all ranks divided by `features`
    and `rows`."""
    features: Count = 1
    """Number of ranks that share each slice: each holds a part of the features of code layers (`lca`, `ista`,
    `momentum_lca`, `heavy_ball`), and their weights. For layers too large for one rank; requires
    communication in every step."""
    rows: Count = 1
    """Number of ranks that share each slice: each holds a tile of the rows of layers whose units depend on
    their own input alone, and all weights but those of positions (`non_shared`) in other tiles. For images
    too large for one rank; neighbouring tiles exchange the rows at their borders in every step."""

    @property
    def parts(self) -> int:
        """Ranks that share each slice."""
        return self.features * self.rows

    @property
    def split(self) -> str:
        """The key that splits slices over ranks, and its value; empty if none does."""
        return ", ".join(f"parallel.{name} = {getattr(self, name)}" for name in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the keys that split slices over ranks."""
        return tuple(name for name in ("features", "rows") if getattr(self, name) > 1)


SPIKES = "spikes"
"""In place of a variable of a layer: its spikes, in each step; also the group of the run file they are in."""


class LayerOutput(Model):
    """Variables of a layer to record, and their schedule."""

    every: Schedule = DISPLAY
    """Schedule of recording: at the end of these steps."""
    variables: tuple[str, ...] = ("A",)
    """Names of the variables: `A` is the activity, others depend on the layer type, such as `V`. `spikes`, of
    spiking layers, are the events of all steps, whatever `every` (unless it is "never")."""


class ConnectionOutput(Model):
    """Variables of a connection to record, and their schedule. The initial weights are always recorded.

    Without this table, weights that learn are recorded at the end of the run. With `every = "never"`, they
    are not. With the weights of single synapses it is recorded which these are, before step 1 and at the end
    of the run.
    """

    every: Schedule = DISPLAY
    """Schedule of recording: at the end of these steps, before step 1, and at the end of the run."""
    variables: tuple[str, ...] = ("weights",)
    """`weights`: the weights. `usage`, of patches: how often each pre feature was active at the last update,
    summed over positions and slices. Of synapses that learn, also the traces and variables of their rule."""


class Output(Model):
    """Recording to the run file, in addition to the probes."""

    layers: Annotated[dict[str, LayerOutput], FROZEN] = Field(default_factory=FrozenDict)
    """Tables `[output.layers.NAME]`, by layer name."""
    connections: Annotated[dict[str, ConnectionOutput], FROZEN] = Field(default_factory=FrozenDict)
    """Tables `[output.connections.NAME]`, by connection name."""
    format: Literal["hdf5", "zarr"] = "hdf5"
    """`hdf5`: segments, and `run.h5` over them. `zarr`: the store `run.zarr`; it needs the extra `zarr`."""
    flush: Schedule | None = None
    """Schedule at which buffered records are written to disk as an immutable segment; by default every 10
    displays, of very short displays as rarely as checkpoints are saved by default, or more often if the
    buffers would become too large."""


class Checkpoint(Model):
    """Checkpoints of the complete state. One is always written when a run ends or is stopped."""

    every: Schedule | None = None
    """Schedule of checkpoints: at the end of these steps; by default every 50 displays, of short displays as
    many as make 1000 steps."""
    keep: Count = 2
    """Number of checkpoints to keep; older ones are deleted."""


class Evaluate(Model):
    """Evaluation on held-out images while a network learns, `[evaluate]`.

    The weights of the moment, frozen, code the images of another source from the initial state, and the
    probes of the network measure the codes at the end of each display. Nothing of the run itself changes. The
    results are recorded under `/probes/evaluate`, as PROBE_QUANTITY.
    """

    source: Annotated[Source, OneOf(Source)]
    """Source of the held-out images; the same ones at each evaluation."""
    layer: str | None = None
    """Input layer that shows them; may be omitted if there is only one."""
    every: Schedule = Every(50, "displays")
    """Schedule of evaluations: at the end of these steps, after the weight update. Each takes as long as
    `displays` displays of the run."""
    displays: Count = 1
    """Number of images that each slice codes; quantities are averages over them."""


class Network(Model):
    """A complete network description: the contents of a params file, or the same models built in Python."""

    title: str = ""
    """Title of the network, for reports and plots."""
    plugins: tuple[str, ...] = ()
    """Plug-ins that define further types: Python files, relative to the params file, or names of modules."""
    run: Run
    """Length of the run, batch size and numerical method; at least `{ steps = 100 }`."""
    layers: Annotated[dict[str, Annotated[Layer, OneOf(Layer)]], FROZEN]
    connections: Annotated[dict[str, Annotated[Connection, OneOf(Connection)]], FROZEN] = Field(
        default_factory=FrozenDict
    )
    probes: Annotated[dict[str, Annotated[Probe, OneOf(Probe)]], FROZEN] = Field(default_factory=FrozenDict)
    output: Output = Output()
    evaluate: Evaluate | None = None
    """Evaluation on held-out images."""
    slices: Annotated[dict[str, Annotated[tuple[Finite, ...], Field(min_length=1)]], FROZEN] = Field(
        default_factory=FrozenDict
    )
    """Values per slice, by key path, as `"layers.V1.threshold" = [0.3, 0.4]`; in a params file also written
    as `threshold = { slices = [0.3, 0.4] }` in the table of the layer, connection or probe."""
    over_time: dict[str, OverTime] = Field(default_factory=dict)
    """Values over time, by key path; in a params file written as `threshold = { at = [...], values = [...] }`
    in place of the number."""
    sweep: Sweep | None = None
    """Values of numeric keys, of which each combination is run."""
    checkpoint: Checkpoint = Checkpoint()
    parallel: Parallel = Parallel()

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a drawing, and tables of layers, connections and probes."""
        found: str = import_module("petabatch.report.notebook").network_html(self)  # by name: it is above
        return found

    @property
    def batch(self) -> int:
        """Number of slices: those of all points of a sweep."""
        return self.run.batch * (1 if self.sweep is None else self.sweep.points)

    @model_validator(mode="before")
    @classmethod
    def _values_by_path(cls, data: Any) -> Any:
        """Move several values of a number to `slices` and `over_time`; see `values_by_path`."""
        return values_by_path(data) if isinstance(data, dict) else data
