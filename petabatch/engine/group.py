"""A group: lanes that run from one sync event to the next together, small slices in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from petabatch.engine.agreement import agreed, agreeing
from petabatch.engine.backend import Backend
from petabatch.engine.failure import OF_A_SLICE, Failure
from petabatch.engine.finite import Watch
from petabatch.engine.lane import Lane
from petabatch.engine.last_finite import LastFinite
from petabatch.engine.observer import Observer
from petabatch.engine.observers import neighbouring, observers
from petabatch.engine.steppers import Stepper, fails_alone
from petabatch.errors import NonFiniteError, PetabatchError
from petabatch.variable import Array


class Group:
    """One lane or several, whose stepper advances all of them; nothing crosses from one to another.

    Each rests, resets and learns by itself, and has its own values.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        """Take lanes whose steppers are of one kind."""
        self.all = list(lanes)
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

    @property
    def lanes(self) -> slice:
        """The local slices, from the first to the last."""
        return slice(self.all[0].lanes.start, self.all[-1].lanes.stop)

    def run(self, first: int, last: int) -> None:
        """Make steps first+1 .. last, with everything that happens in them.

        Raises NonFiniteError when a variable holds a NaN or an infinity at the end of a display, or of them.
        """
        step, leader = first, self.all[0]
        measure = leader.clock.measure
        # What overflows is reported by name at the end, not as a warning of numpy's.
        with np.errstate(over="ignore", invalid="ignore"), measure("lane"):
            for lane in self._changing:
                lane.start(step)
            self._arrange()
            for lanes in self.calls:
                lanes[0].stepper.load_weights()
            while step < last:
                if step not in self._quiet:
                    self._begin(step)
                    event = min(lane.next_event(step, leader.plan.length) for lane in self._different)
                    self._quiet = range(step + 1, event)
                stop = min(self._quiet.stop, last)
                with measure("steps"):
                    self._advance(step, stop)
                step = stop
                if self._raising:
                    sound = self._sound
                    self._stop([lane.stepper.take_error() for lane in sound], sound, step)
                if step == self._quiet.stop:
                    self._end(step)
                if step == last or step % leader.ctx.display == 0:
                    self._check(step)

    def _end(self, step: int) -> None:
        """Learn from a step, and record it, where that is due."""
        measure = self.all[0].clock.measure
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

    def _check(self, step: int) -> None:
        """Raise NonFiniteError, or stop the slice, when a variable is not finite.

        What is kept then, or left at the end of a run, is materialised before.
        """
        if not self._watches:
            self._watches = [_watch(lanes) for lanes in neighbouring(self.all)]
            if self.all[0].plan.tolerant:
                self._kept = [LastFinite(_arrays(lanes)) for lanes in neighbouring(self.all)]
        keeps = self.all[0].plan.tolerant and step % self.all[0].ctx.display == 0
        if keeps or step == self.all[0].plan.length:
            for lane in self.all:
                lane.stepper.materialise()
        if not self.all[0].plan.tolerant:
            with agreeing(self._ranks, self.lanes.start):
                for watch in self._watches:
                    watch.check(step)
        elif step % self.all[0].ctx.display and step < self.all[0].plan.length:
            return  # other sync events depend on the batch; the step at which a slice stops must not
        else:
            sound, finite = self._sound, all(watch.finite(step) for watch in self._watches)
            if not finite or self._ranks.size > 1:
                errors = [None if finite else _error(_watch([lane]).check, step) for lane in sound]
                self._stop(errors, sound, step)
            for kept in self._kept if step < self.all[0].plan.length else ():
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
            with self.all[0].clock.measure("input"):
                sound = self._sound
                self._stop([_error(lane.show, step + 1) for lane in sound], sound, step + 1)

    def _advance(self, first: int, last: int) -> None:
        paused = set(self.all).difference(self._sound) if self.all[0].plan.tolerant else set()
        paused |= {lane for lane in self._resting if lane not in paused and lane.rests(first, last)}
        for lanes in self.calls:
            moving = [lane for lane in lanes if lane not in paused] if paused else lanes
            if moving and moving[0].control.needed:
                for step in range(first + 1, last + 1):
                    for lane in moving:
                        lane.control.control(step, lane.images.fresh_at(step))
                    _steps(moving, step - 1, step)
            elif moving:
                _steps(moving, first, last)
        for lane in self._resting:
            if lane not in paused:
                lane.moved(first, last)


def _error(
    call: Callable[[int], None], step: int, kinds: tuple[type[PetabatchError], ...] = OF_A_SLICE
) -> PetabatchError | None:
    """Make a call of a step for a slice; return the error of one of these kinds that it raises."""
    try:
        call(step)
    except kinds as error:
        return error
    return None


def _steps(lanes: Sequence[Lane], first: int, last: int) -> None:
    """Have lanes of one kind make steps first+1 .. last."""
    steppers, fresh = [lane.stepper for lane in lanes], lanes[0].images.fresh_at(first + 1)
    try:
        sums = steppers[0].run_together(steppers, first, last, fresh)
    except OF_A_SLICE as error:
        error.slices = error.slices or [number for lane in lanes for number in lane.slices]
        raise
    steppers[0].record(steppers, lanes[0].recorder, first, last, sums)


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
    groups as threads.
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
        size = method.group_size(len(kind), backend.workers) if method.together > 1 else 1
        if few:
            size = -(-len(kind) // backend.workers)
        yield from (Group(kind[first : first + size]) for first in range(0, len(kind), size))
