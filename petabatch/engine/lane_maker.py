"""The making of the lanes of a rank; slices that are alike share a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from petabatch.engine.backend import Backend
from petabatch.engine.exact_start import Dictionary
from petabatch.engine.features import Features
from petabatch.engine.images import ImageReader
from petabatch.engine.lane import Lane
from petabatch.engine.recorder import Recorder
from petabatch.engine.steppers import StepperMaker
from petabatch.engine.stopwatch import Stopwatch
from petabatch.network.over_time import knots
from petabatch.network.plan import Plan


class LaneMaker:
    """Makes lanes of a plan; what their steppers can share is made once."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        recorder: Recorder,
        readers: Mapping[str, ImageReader],
        features: Features,
    ) -> None:
        """Take what all lanes have in common."""
        self._plan, self._backend, self._recorder = plan, backend, recorder
        self._readers, self._features = readers, features
        self._make_stepper, self._dictionary = StepperMaker(), Dictionary()

    def lane(self, lanes: slice, slices: range, stopwatch: Stopwatch) -> Lane:
        """Return a new lane of slices in these places, with their plan; those that are alike share one."""
        plan = self._plan.of_slice(slices.start)
        for step in knots(plan.graph.network):
            plan.at_step(step)  # values that need another kernel are refused before the run
        own = self._backend, lanes, slices, self._recorder, self._readers, self._features
        return Lane(plan, *own, self._make_stepper, self._dictionary, stopwatch)

    def all(self, lo: int, stopwatch: Callable[[], Stopwatch]) -> Iterator[Lane]:
        """Yield the lanes of a rank, whose first slice is `lo`; each has a stopwatch of its own."""
        for window in self._backend.windows:
            for lanes in self._alike(window, lo):
                yield self.lane(lanes, range(lo + lanes.start, lo + lanes.stop), stopwatch())

    def _alike(self, window: slice, lo: int) -> Iterator[slice]:
        """Yield the parts of a window whose slices have the same plan; each slice where it may rest alone."""
        alone = self._plan.graph.network.run.until is not None or self._plan.tolerant
        first, own = window.start, self._plan.of_slice(lo + window.start)
        for number in range(window.start + 1, window.stop):
            following = self._plan.of_slice(lo + number)
            if alone or following is not own:
                yield slice(first, number)
                first, own = number, following
        yield slice(first, window.stop)
