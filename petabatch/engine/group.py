"""A group: lanes that run from one sync event to the next together, small slices in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from petabatch.engine import exact_start
from petabatch.engine.agreement import agreed
from petabatch.engine.backend import Backend
from petabatch.engine.failure import OF_A_SLICE, Failure
from petabatch.engine.finite import Watch
from petabatch.engine.lane import Lane
from petabatch.engine.last_finite import LastFinite
from petabatch.engine.observer import Observer
from petabatch.engine.observers import neighbouring, observers
from petabatch.engine.retracing import error_of_its_step
from petabatch.engine.steppers import Stepper, fails_alone
from petabatch.errors import NonFiniteError, PetabatchError
from petabatch.network.last_finite import TRACED
from petabatch.variable import Array

_WORTH_KEEPING = 100
"""Steps in which the state is kept at most once if it is changed by hand again and again."""
_TURNS = 8
"""Groups of each thread where displays end early: slices differ in their steps, and threads wait for less."""


class Group:
    """One lane or several, whose stepper advances all of them; nothing crosses from one to another.

    Each rests, resets and learns by itself, and has its own values.
    """

    def __init__(self, lanes: Sequence[Lane], recording: bool = True) -> None:
        """Take lanes whose steppers are of one kind."""
        self.all, self._recording = list(lanes), recording
        network = lanes[0].plan.graph.network
        self._changing = self.all if network.over_time else []
        """The lanes whose values change over time: all or none."""
        self._resting = self.all if network.run.until is not None else []
        """The lanes that may rest before a display ends: all or none."""
        self._watches: list[Watch] = []
        self._kept: list[LastFinite] = []
        self._steppers: list[Stepper] = []
        self.calls: list[Sequence[Lane]] = []
        """The lanes that are advanced in one call: their steppers are of one kind. Known once it has run."""
        self._different: list[Lane] = []
        """A lane of each plan that differs in more than numbers of the steps: most slices share one."""
        self._observed: Sequence[Lane] | None = None
        self._observers: Sequence[Observer] = []
        """Lanes that were recorded last, and what observes them."""
        self._ranks = lanes[0].features.group
        """Those that share the slices: one that fails on some of them fails on all."""
        self._raising = any(fails_alone(lanes[0].plan, name) for name in network.layers)
        """Whether a slice may stop alone with an error of the update of a layer."""
        self._quiet = range(0)
        """Steps that were reached or passed after the last event, up to the next one, its stop."""
        self._retraces = TRACED in lanes[0].arrays
        """Whether slices can make steps again, to find out in which one they were no longer finite."""
        self._unkept = 0
        """Steps since it was last looked whether a state is kept from which they can do so."""

    @property
    def lanes(self) -> slice:
        """The local slices, from the first to the last."""
        return slice(self.all[0].lanes.start, self.all[-1].lanes.stop)

    def run(self, first: int, last: int) -> None:
        """Make steps first+1 .. last, with everything that happens in them.

        Raises NonFiniteError when a variable holds a NaN or an infinity after a step that is judged.
        """
        step, plan = first, self.all[0].plan
        measure = self.all[0].stopwatch.measure
        # What overflows is reported by name at the end, not as a warning of numpy's.
        with np.errstate(over="ignore", invalid="ignore"), measure("lane"):
            self._start(step)
            self._unkept += last - step
            if self._retraces and (step == 0 or (not plan.tolerant and self._unkept >= _WORTH_KEEPING)):
                self._keep(step, again=False)
                self._unkept = 0
            while step < last:
                step = self._make(step, min(last, plan.next_judgement(step)))
                if self._raising:
                    sound = self._sound
                    self._stop([lane.stepper.take_error() for lane in sound], sound, step)
                if step == self._quiet.stop:
                    self._end(step)
                if plan.judges(step):
                    self._judge(step)

    def repeat(self, first: int, last: int) -> None:
        """Make steps first+1 .. last again, without what else happens at their ends."""
        step = first
        self._start(step)
        while step < last:
            step = self._make(step, last)

    def _start(self, step: int) -> None:
        """Be ready to go on from `step`."""
        for lane in self._changing:
            lane.start(step)
        self._arrange()
        for lanes in self.calls:
            lanes[0].stepper.load_weights()

    def _make(self, step: int, last: int) -> int:
        """Make the steps after `step` up to the next event, or up to `last`; return the last of them."""
        if step not in self._quiet:
            self._begin(step)
            event = min(lane.next_event(step, self.all[0].plan.length) for lane in self._different)
            self._quiet = range(step + 1, event)
        stop = min(self._quiet.stop, last)
        with self.all[0].stopwatch.measure("steps"):
            self._advance(step, stop)
        return stop

    def _end(self, step: int) -> None:
        """Learn from a step, and record it, where that is due."""
        measure = self.all[0].stopwatch.measure
        if any(update.due(step) for update in self.all[0].plan.weight_updates):
            with measure("learning"):
                self._learn(step)
        if any(lane.observer.due(step) for lane in self._different):
            with measure("probes and output"):
                self.record(step)

    def _learn(self, step: int) -> None:
        """Learn from a step; what a rule raises on some of the ranks that share a slice ends the run.

        Others may be waiting for its messages. Whether weights are finite is seen after all of these.
        """
        kinds = OF_A_SLICE if self._ranks.size == 1 else (NonFiniteError,)
        sound = self._sound
        self._stop([_error(lane.learning.learn, step, kinds) for lane in sound], sound, step)

    def _stop(self, errors: Sequence[PetabatchError | None], lanes: Sequence[Lane], step: int) -> None:
        """Stop the lanes that have an error on any rank that shares them, or raise it."""
        for lane, error in zip(lanes, agreed(errors, self._ranks, self.lanes.start), strict=True):
            if error is not None:
                if not lane.plan.tolerant:
                    raise error
                lane.stop(Failure.of(error, step))

    def record(self, step: int) -> None:
        """Record what is due at the end of a step, of slices that have not stopped."""
        if (sound := self._sound) != self._observed:
            self._observed, self._observers = sound, list(observers(sound))
        for observer in self._observers:
            try:
                observer.record(step)
            except OF_A_SLICE as error:
                if not self.all[0].plan.tolerant:
                    raise
                lanes = range(observer.lanes.start, observer.lanes.stop)
                first, *others = (lane for lane in sound if lane.lanes.start in lanes)
                if not others:
                    first.stop(Failure.of(error, step))
                for lane in (first, *others) if others else ():  # together, no event has been recorded
                    if (found := _error(lane.observer.record, step)) is not None:
                        lane.stop(Failure.of(found, step))

    def _judge(self, step: int) -> None:
        """Raise NonFiniteError, or stop the slice, when a variable is not finite; keep the state if it is.

        What is kept then, or left at the end of a run, is materialised before.
        """
        plan = self.all[0].plan
        if not self._watches:
            self._watches = [_watch(lanes) for lanes in neighbouring(self.all)]
        if plan.tolerant or step == plan.length:
            self._materialise()
        sound, finite = self._sound, all(watch.finite(step) for watch in self._watches)
        if not finite or self._ranks.size > 1:
            errors: list[PetabatchError | None] = [None] * len(sound)
            for place, lane in enumerate(() if finite else sound):
                errors[place] = self._not_finite(lane, step)
                if errors[place] is not None and not plan.tolerant:
                    break
            self._stop(errors, sound, step)
        if (plan.tolerant or self._retraces) and step < plan.length:
            self._keep(step)

    def _not_finite(self, lane: Lane, step: int) -> PetabatchError | None:
        """Return the error of a lane that is not finite, of the step in which it began if that is known."""
        found = _error(lambda step: _watch([lane]).check(step, lane.plan.judged_before(step)), step)
        if found is None or not (self._retraces and lane.plan.retraces):
            return found
        alone = Group([lane], recording=False)
        return error_of_its_step(lane, step, alone.repeat, _watch([lane])) or found

    def _materialise(self) -> None:
        for lane in self.all:
            lane.stepper.materialise()

    def _keep(self, step: int, again: bool = True) -> None:
        """Keep the state after `step`; not `again` where one is kept from which steps can be made again."""
        if not self._kept:
            self._kept = [LastFinite(_arrays(lanes)) for lanes in neighbouring(self.all)]
        for kept in self._kept:
            if again or kept.traced < 0:
                kept.keep(step)

    @property
    def _sound(self) -> Sequence[Lane]:
        """The lanes that have not failed."""
        return [lane for lane in self.all if lane.failure is None]

    def _arrange(self) -> None:
        """Find out which lanes are alike, if any has another stepper."""
        steppers = [lane.stepper for lane in self.all]
        if steppers != self._steppers:
            self._steppers, self._observed = steppers, None
            self.calls = [lanes for kind in _alike(self.all) for lanes in _calls(kind)]
            self._different = list({id(lane.plan.model or lane.plan): lane for lane in self.all}.values())

    def _begin(self, step: int) -> None:
        """Have all slices show what is new in step + 1, with its values."""
        for lane in self._changing:
            lane.change(step + 1)
        if self._changing:
            self._arrange()  # values may have made programs differ in more than numbers
        if any(lane.images.new_at(step + 1) for lane in self._different):
            with self.all[0].stopwatch.measure("input"):
                sound = self._sound
                self._stop([_error(lane.show, step + 1) for lane in sound], sound, step + 1)
                self._begin_exactly(step + 1)

    def _begin_exactly(self, step: int) -> None:
        """Initialise displays with the exact codes of their images, in lanes with an exact solver."""
        lanes = [(lane, lane.exact) for lane in self._sound if lane.exact is not None]
        for lane, _ in lanes:
            lane.stepper.materialise()
        solved = exact_start.begin(step, [(exact, lane.deliveries.histories) for lane, exact in lanes])
        for (lane, _), changed in zip(lanes, solved, strict=True):
            if changed:
                lane.stepper.state_changed()

    def _advance(self, first: int, last: int) -> None:
        paused = set(self.all).difference(self._sound) if self.all[0].plan.tolerant else set()
        paused |= {lane for lane in self._resting if lane not in paused and lane.rests(first, last)}
        for lanes in self.calls:
            moving = [lane for lane in lanes if lane not in paused] if paused else lanes
            if moving and moving[0].control.needed:
                for step in range(first + 1, last + 1):
                    for lane in moving:
                        lane.control.control(step, lane.images.fresh_at(step))
                    self._steps(moving, step - 1, step)
            elif moving:
                self._steps(moving, first, last)
        for lane in self._resting:
            if lane not in paused:
                lane.moved(first, last)

    def _steps(self, lanes: Sequence[Lane], first: int, last: int) -> None:
        """Have lanes of one kind make steps first+1 .. last."""
        steppers, fresh = [lane.stepper for lane in lanes], lanes[0].images.fresh_at(first + 1)
        try:
            sums = steppers[0].run_together(steppers, first, last, fresh)
        except OF_A_SLICE as error:
            error.slices = error.slices or [number for lane in lanes for number in lane.slices]
            raise
        if self._recording:
            steppers[0].record(steppers, lanes[0].recorder, first, last, sums)


def _error(
    call: Callable[[int], None], step: int, kinds: tuple[type[PetabatchError], ...] = OF_A_SLICE
) -> PetabatchError | None:
    """Make a call of a step for a slice; return the error of one of these kinds that it raises."""
    try:
        call(step)
    except kinds as error:
        return error
    return None


def _watch(lanes: Sequence[Lane]) -> Watch:
    """Return a watch over all variables of lanes whose slices follow each other."""
    slices = [number for lane in lanes for number in lane.slices]
    return Watch(lanes[0].plan, _arrays(lanes), slices)


def _arrays(lanes: Sequence[Lane]) -> Mapping[str, Array]:
    """Return the arrays of lanes whose slices follow each other."""
    return lanes[0].backend.arrays.lane(slice(lanes[0].lanes.start, lanes[-1].lanes.stop))


def _alike(lanes: Iterable[Lane]) -> list[list[Lane]]:
    """Return lanes in parts whose steppers are of one kind."""
    kinds: dict[Hashable, list[Lane]] = {}
    for lane in lanes:
        kinds.setdefault(lane.stepper.kind, []).append(lane)
    return list(kinds.values())


def _calls(lanes: Sequence[Lane]) -> Iterator[Sequence[Lane]]:
    """Yield parts of lanes of one kind that are advanced in one call."""
    method = lanes[0].plan.method
    size = method.group_size(len(lanes), 1) if method.together > 1 else len(lanes)
    yield from (lanes[first : first + size] for first in range(0, len(lanes), size))


def groups(lanes: Sequence[Lane], backend: Backend, few: bool = False) -> Iterator[Group]:
    """Yield the lanes of each window, or groups of one kind that its method advances in one call.

    These are as large as the threads of the backend let them be, and lanes that are advanced one after the
    other have a group each. For `few` steps of each lane, which take no longer than a call, there are as few
    groups as threads; for displays that end early, which often are as short, a few for each thread.
    """
    windows: dict[int, list[Lane]] = {}
    others = []
    for lane in lanes:
        peers = backend.peers(lane.lanes)
        if peers is None:
            others.append(lane)
        else:
            windows.setdefault(peers.window.start, []).append(lane)
    yield from map(Group, windows.values())
    for kind in _alike(others):
        method = kind[0].plan.method
        if few:
            size = -(-len(kind) // backend.workers)
        elif method.together > 1:
            size = method.group_size(len(kind), backend.workers)
        else:
            size = -(-len(kind) // (_TURNS * backend.workers)) if kind[0].stepper.looks_inside else 1
        yield from (Group(kind[first : first + size]) for first in range(0, len(kind), size))
