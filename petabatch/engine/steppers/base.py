"""The interface of steppers, and what they are bound to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from petabatch.engine.backend import Backend
from petabatch.engine.deliveries import Deliveries
from petabatch.engine.recorder import Recorder
from petabatch.engine.step_records import UNLIMITED
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.errors import PetabatchError
from petabatch.network.plan import Plan
from petabatch.spec.parts import StepContext
from petabatch.spec.weights import Learning
from petabatch.variable import Array


@dataclass(frozen=True)
class Binding:
    """The slices of a lane as a stepper sees them."""

    plan: Plan
    arrays: Mapping[str, Array]
    """Every array of the simulation by its key, of these slices."""
    deliveries: Deliveries
    ctx: StepContext
    backend: Backend
    lanes: slice
    """Their places among the slices of the rank."""
    slices: range
    """Their numbers in the batch."""


@dataclass(frozen=True)
class Rows:
    """Threads that work on one slice together."""

    pool: Executor
    threads: int


class Stepper(ABC):
    """Advances the slices of a lane from one event to the next; `network.method` chooses which.

    A lane calls, in this order: `load_weights`; `run` up to each event; at an event `products` for each
    connection that learns, then `before_weight_change`, then `load_weights`. `materialise` at any time.
    """

    def __init__(self, bound: Binding, probes: StepProbes, follows: frozenset[str] = frozenset()) -> None:
        self.bound = bound
        self.probes = probes
        """The recordings that `run` makes."""
        self.follows = follows
        """Layers whose time scale `run` adapts."""
        self._error: PetabatchError | None = None
        self.reached = 0
        """The last step that was made: what tells a slow lane from one that hangs."""

    @property
    def recorded(self) -> Collection[int]:
        """The recordings that are made by `record` and `rest`."""
        return self.probes.recordings

    @property
    def passed(self) -> Collection[int]:
        """Those of them that `run` makes in the middle of its steps; at others the lane ends it."""
        return self.recorded

    @property
    def most_steps(self) -> int:
        """Most steps of a call of `run`."""
        return UNLIMITED

    @property
    def looks_inside(self) -> bool:
        """Whether `run` looks at the gap of `run.until` itself: it may then stop before `last`."""
        return False

    @abstractmethod
    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; `new_image` says that an image is new in the first of them.

        With `looks_inside` it ends where the slice stops, `reached`, and sets the slice's gap. Returns the
        norms of `probes.columns` after each step that `probes` records, float64 `[steps, lanes, columns]`.
        """

    @property
    def kind(self) -> Hashable:
        """What those have in common whose steps one `run_together` makes; by default it is alone."""
        return self

    def run_together(self, steppers: Sequence[Stepper], first: int, last: int, new_image: bool) -> Array:
        """Do as `run` does for `steppers`, this one and others of its kind; norms of all their lanes."""
        return self.run(first, last, new_image)

    def fail(self, error: PetabatchError, step: int) -> None:
        """Note what the update of a layer has raised in the slice, which stops at the next event."""
        if self._error is None:
            error.step, self._error = step, error

    def take_error(self) -> PetabatchError | None:
        """Return the first error that was noted since this was called."""
        error, self._error = self._error, None
        return error

    def warm_up(self) -> None:
        """Have everything compiled that `run` needs."""

    def share(self, rows: Rows) -> None:
        """Let several threads work on a slice, with the same bits, where that is faster."""

    def unshare(self) -> None:
        """Work on one thread again."""

    def load_weights(self) -> None:
        """Prepare the weights for reading; each thread calls this when they may have changed."""

    def before_weight_change(self) -> None:
        """Bring the state into a form that does not depend on the weights, which are about to change."""

    def materialise(self) -> None:
        """Bring all arrays up to date; changes nothing that later steps depend on."""

    def state_changed(self) -> None:
        """Go on from the arrays, which have been changed after `materialise`."""

    def products(
        self,
        step: int,
        connection: str,
        pre: str,
        against: str,
        rule: Learning,
        product: Array,
        counts: Array | None,
    ) -> bool:
        """Write the Hebbian product of two layers at the end of `step` and its counts; return whether it did.

        A stepper does this where it is faster than the array kernels.
        """
        return False

    def computed(self) -> Mapping[str, float]:
        """Return the share of units computed in a step so far, of each code that is lazily evaluated."""
        return {}

    def time_parts(self, steppers: Sequence[Stepper]) -> Mapping[str, float]:
        """Return the processor times of the parts of a step of `steppers`, this one and others that join it.

        By part, in the order of a step, in any unit; by default a step is one part. It begins with the
        present state, which is void after.
        """
        return {"steps": 1.0}

    def record(
        self, steppers: Sequence[Stepper], recorder: Recorder, first: int, last: int, sums: Array
    ) -> None:
        """Record what is due in steps first+1 .. last, which one `run_together` has made, with its result."""
        begin = 0
        for one in steppers:
            end = begin + len(one.bound.ctx.slices)
            one.probes.write(recorder, one.bound.lanes, first, last, sums[:, begin:end])
            begin = end

    def rest(self, recorder: Recorder, first: int, last: int) -> None:
        """Record what is due in steps first+1 .. last, in which all is as after step `first`."""
        if self.probes.columns:
            sums = np.tile(self.sums(first), (last - first, 1, 1))
            self.probes.write(recorder, self.bound.lanes, first, last, sums)

    def sums(self, step: int) -> Array:
        """Return the norms after `step`, which was the last to be made, `[columns]`, as `run` would have."""
        return np.zeros(len(self.probes.columns))
