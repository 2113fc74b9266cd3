"""A lane: a range of slices with all that belongs to them, to which nothing comes from others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from petabatch.engine.backend import Backend
from petabatch.engine.control import TimeScaleControl
from petabatch.engine.deliveries import Deliveries
from petabatch.engine.early_stop import early_stop
from petabatch.engine.exact_start import Dictionary, exact_start
from petabatch.engine.failure import Failure
from petabatch.engine.features import Features
from petabatch.engine.images import ImageReader
from petabatch.engine.lane_images import LaneImages, image_margins
from petabatch.engine.last_finite import LastFinite
from petabatch.engine.learning import LaneLearning
from petabatch.engine.observer import Observer
from petabatch.engine.products import Products
from petabatch.engine.recorder import Recorder
from petabatch.engine.state import owned, refresh_own
from petabatch.engine.steppers import Binding, Rows, Stepper
from petabatch.engine.stopwatch import Stopwatch
from petabatch.lazy_property import lazy_property
from petabatch.network.over_time import values_at
from petabatch.network.plan import Plan
from petabatch.spec.parts import StepContext

_MADE = "deliveries", "products", "observer", "images", "control", "learning"
"""What a lane makes of its plan when it is first asked for: of most lanes of a group it is not."""


class Lane:
    """The slices in the places `lanes` of a rank, and what happens between steps; a `Group` makes those."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        lanes: slice,
        slices: range,
        recorder: Recorder,
        readers: Mapping[str, ImageReader],
        features: Features,
        make_stepper: Callable[[Plan, Binding], Stepper],
        dictionary: Dictionary,
        stopwatch: Stopwatch,
    ) -> None:
        """Bind the arrays of the slices, with the values of step 1; `clock` is that of this lane alone."""
        run, method = plan.graph.network.run, plan.method
        self._base, self.lanes, self.recorder = plan, lanes, recorder
        self.backend, self.readers, self.features = backend, readers, features
        self._make_stepper, self._dictionary = make_stepper, dictionary
        self.kernels = backend.kernels(method.compiled_operators)
        self.arrays = arrays = backend.arrays.lane(lanes)
        self.slices = slices
        within = tuple(number % run.batch for number in slices)  # in their points
        self.ctx = ctx = StepContext(0, run.dt, within, run.seed, self.kernels.xp, run.display)
        self._margins = image_margins(plan, readers, slices, ctx)
        self.early_stop = early_stop(run, arrays)
        self.stopwatch = stopwatch
        self.failure: Failure | None = None
        """Why it stopped; see `Plan.tolerant`."""
        self._rows: Rows | None = None
        self._bind(0)

    def _bind(self, step: int) -> None:
        """Take over the numbers of a step; the state is in the arrays."""
        self._values, plan = self._values_at(step), self._base.at_step(step)
        arrays, ctx, backend = self.arrays, self.ctx, self.backend
        self.plan, self.exact = plan, exact_start(plan, self._dictionary, arrays)
        for name in _MADE:
            self.__dict__.pop(name, None)
        bound = Binding(plan, arrays, self.deliveries, ctx, backend, self.lanes, self.slices)
        peers = backend.peers(self.lanes)
        if peers is not None:
            peers.bound[self.lanes.start] = bound
        self.stepper = self._make_stepper(plan, bound)

    @lazy_property
    def deliveries(self) -> Deliveries:
        """Its connections."""
        return Deliveries(
            self.plan.graph, self.kernels, self.arrays, self._margins, self.features, self.lanes.start
        )

    @lazy_property
    def products(self) -> Products:
        """What its connections learn from."""
        return Products(self.deliveries)

    @lazy_property
    def observer(self) -> Observer:
        """What looks at its slices alone; a group may look at several lanes in one call."""
        seen = self.recorder, self.lanes, self.backend, self.readers, self.slices
        return Observer(self.plan, self.deliveries, (self.stepper,), *seen)

    @lazy_property
    def images(self) -> LaneImages:
        """The display of images."""
        return LaneImages(self.plan, self.readers, self.deliveries.histories, self.slices, self.backend)

    @lazy_property
    def control(self) -> TimeScaleControl:
        """The control of time scales that the stepper does not follow."""
        return TimeScaleControl(self.plan, self.observer, self.arrays, self.stepper.follows)

    @lazy_property
    def learning(self) -> LaneLearning:
        """Its plastic connections."""
        return LaneLearning(self.plan, self.products, self.stepper, self.ctx, self.slices)

    def stop(self, failure: Failure) -> None:
        """Make no more steps; the state is the last finite one again."""
        self.failure = failure
        LastFinite(self.arrays).restore()
        refresh_own(self.plan.graph, self.plan.variables, self.arrays, self.kernels)

    def warm_up(self) -> None:
        """Have compiled what its steps need."""
        self.stepper.warm_up()
        if self.exact is not None:
            self.exact.warm_up()

    def share(self, rows: Rows | None) -> None:
        """Let several threads work on a slice, or one again."""
        self._rows = rows
        if rows is None:
            self.stepper.unshare()
        else:
            self.stepper.share(rows)

    @property
    def reached(self) -> int:
        """The last completed step, by which the watchdog tells a slow lane from one that hangs."""
        return self.stepper.reached

    def resume(self, step: int) -> None:
        """Go on from `step` and the arrays as they are; nothing else is kept of steps that were made."""
        if self.reached:
            self._rebind(step)
        self.stepper.reached = step
        self.forget_images()

    def forget_images(self) -> None:
        """Read images with their margins again."""
        for margin in self._margins.values():
            margin.forget()

    def start(self, step: int) -> None:
        """Be ready to go on from `step`, but for the weights."""
        if self._values != self._values_at(step):  # the run was resumed or restarted here
            self._rebind(step)

    def show(self, step: int) -> None:
        """Show what is new at `step`."""
        self.images.show(step)
        self._restart(self.images.begin(step))

    def next_event(self, step: int, last: int) -> int:
        """Return the next event after `step`, up to `last`."""
        stepper = self.stepper
        last = min(last, step + stepper.most_steps)
        return self.plan.next_event(step, last, stepper.passed, stepper.looks_inside)

    def rests(self, first: int, last: int) -> bool:
        """Let steps first+1 .. last be like `first` if the slice is stopped; return whether it is."""
        rests = self.early_stop.rests(first + 1)
        if rests:
            self._rest(first, last)
        return rests

    def moved(self, first: int, last: int) -> None:
        """Tell early stopping that steps have been made from `first` on; rest in those that are left."""
        reached, measured = self.stepper.reached, self.stepper.looks_inside
        self.early_stop.advanced(first, reached, None if measured else partial(self.observer.gap, last))
        if reached < last:
            self._rest(reached, last)

    def change(self, step: int) -> None:
        """Take over the values of `step` where they change, as a run does that is resumed here with them."""
        if self._values != self._values_at(step):
            self.stepper.before_weight_change()
            self._rebind(step)
            self.stepper.load_weights()

    def _values_at(self, step: int) -> dict[str, float]:
        return values_at(self._base.graph.network, step)

    def _rebind(self, step: int) -> None:
        reached = self.stepper.reached
        self._bind(step)
        self.stepper.reached = reached
        if self._rows is not None:
            self.stepper.share(self._rows)

    def _restart(self, lanes: Sequence[int]) -> None:
        """Reset the layers of these slices, which begin a film."""
        if not lanes:
            return
        self.stepper.materialise()
        for name, layer in self.plan.graph.network.layers.items():
            state = owned(self.arrays, f"layers/{name}")
            for lane in lanes:
                layer.restart({key: array[lane : lane + 1] for key, array in state.items()}, None)
        self.stepper.state_changed()

    def _rest(self, first: int, last: int) -> None:
        """Let steps first+1 .. last be like `first`."""
        self.deliveries.rest(first, last)
        self.stepper.rest(self.recorder, first, last)
