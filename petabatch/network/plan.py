"""The plan of a run: its method, weight updates, recordings and sync events.

Between two *sync events* nothing crosses slices, so every lane (a range of slices) runs on its own. New
input, probes, samples and per-slice learning happen inside the lane; sync events are the updates of
`extra_shared` weights, flushes, checkpoints, and the end of a block of steps, after which stop signals are
handled.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from petabatch.clock import fires, last_fire, next_fire
from petabatch.kernels.cuda.device import Limits
from petabatch.network import last_finite, lazy_codes, variants
from petabatch.network.alike import changes, plain_numbers, renumbered
from petabatch.network.graph import Graph
from petabatch.network.method import Method, choose
from petabatch.network.numbers import is_source
from petabatch.network.operations import Program, Update
from petabatch.network.over_time import next_change, values_at
from petabatch.network.periods import (
    LANE_OPERATIONS,
    beside_arrivals,
    block_period,
    checkpoint_period,
    flush_period,
    judgement_period,
    most_steps,
)
from petabatch.network.recordings import Recording, recordings_of
from petabatch.network.slices import own_values
from petabatch.network.until import next_look
from petabatch.network.weight_updates import UpdateSchedule, weight_updates_of
from petabatch.spec.network import Network
from petabatch.spec.parts import ImageLayer
from petabatch.variable import Variable

RETRACED = 2**20
"""Numbers of a slice, at most, of which a copy is kept to make steps again."""
MOST_PLANS = 1024
"""Plans with values of other steps that are kept."""


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to know; a value that can be printed."""

    graph: Graph
    method: Method
    """Which stepper advances the layers, and why."""
    weight_updates: tuple[UpdateSchedule, ...]
    recordings: tuple[Recording, ...]
    length: int
    flush: int
    checkpoint: int
    block: int
    judgement: int = 1
    """Period in which it is judged whether numbers are finite, in steps; see `judges`."""
    evaluation: int = 0
    """Period of evaluations on held-out images, in steps; 0 is never."""
    stops: tuple[int, ...] = ()
    """Further steps at whose end slices meet, for inspection of their state."""
    tolerant: bool = False
    """A slice that fails stops with its last finite state, and the others go on."""
    limits: Limits | None = None
    """Those of the GPU that runs it, None where it is not known, or on the CPU."""
    whole: Plan | None = None
    """The plan of the whole network, where this one is of the features or rows that a rank has."""
    model: Plan | None = None
    """The plan of another slice from which that of this one differs in numbers of the steps alone: its
    method, with the program, is that of the other; see `changes`."""

    @cached_property
    def inputs(self) -> dict[str, ImageLayer]:
        """The layers that show images."""
        layers = self.graph.network.layers
        return {name: layer.images for name, layer in layers.items() if layer.images is not None}

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Every array of the simulation by its key: of the network, and of the steppers of all slices."""
        return self._variables_of(map(self.of_slice, range(self.graph.network.batch if self._differ else 1)))

    @cached_property
    def expected_variables(self) -> dict[str, Variable]:
        """The same, found out from the plans `of_slices`."""
        return self._variables_of(plan for plan, _ in self.of_slices)

    def _variables_of(self, plans: Iterable[Plan]) -> dict[str, Variable]:
        kept: dict[str, Variable] = {}
        different = {id(plan.method): plan for plan in plans}.values()
        for plan in different:
            if plan.method.stepper == "program":
                kept |= lazy_codes.variables(plan.graph, plan.method.program)
        kept |= self.graph.variables
        return kept | last_finite.variables(kept, self.tolerant, self.retraces)

    @property
    def changes(self) -> Iterator[tuple[int, Update]]:
        """The operations of its program that differ from those of the `model`, and their places."""
        assert self.model is not None
        return changes(self.method.program, self.graph, self.model.graph)

    @property
    def program(self) -> Program:
        """The program of its steps, with its own numbers; raises ValueError for other steppers."""
        program, model = self.method.program, self.model
        return program if model is None else renumbered(program, self.graph, model.graph)

    @property
    def whole_graph(self) -> Graph:
        """The graph of the whole network."""
        return self.graph if self.whole is None else self.whole.graph

    @property
    def _differ(self) -> bool:
        """Whether slices may have values of their own."""
        return bool(self.graph.network.slices) or self.graph.network.sweep is not None

    @cached_property
    def summed_updates(self) -> tuple[tuple[UpdateSchedule, ...], ...]:
        """The updates that are summed over all slices, in groups that always fall due together.

        Where each rank has a tile, weights of positions are summed over other ranks than those of all.
        """
        groups: dict[tuple[int, int, bool], list[UpdateSchedule]] = {}
        for one in self.weight_updates:
            if one.reduced:
                groups.setdefault((one.period, one.offset, one.shared), []).append(one)
        return tuple(map(tuple, groups.values()))

    @cached_property
    def lane_steps(self) -> int:
        """Steps that it takes to make starting a lane, and loading its state into cache, negligible."""
        return int(LANE_OPERATIONS / max(1, 2 * multiply_adds(self.graph)))

    def of_slice(self, number: int) -> Plan:
        """Return the plan of a slice, with its values and their method.

        It is the same object for slices whose steps are alike. Raises ParamsError when the values cannot have
        the kernel of `run.kernel`.
        """
        found = self._by_number.get(number)
        if found is None:
            found = self._by_number[number] = self._find_of_slice(number)
        return found

    def _find_of_slice(self, number: int) -> Plan:
        network = self.graph.network
        values = own_values(network, number)
        own = tuple(value for path, value in values.items() if path not in self._of_sources)
        if not own:
            return self
        if own not in self._plans:
            self._plans[own] = variants.of_slice(self, number, values)
        return self._plans[own]

    def network_of(self, number: int) -> Network:
        """Return the network of a slice, with all values of its dynamics."""
        return self.of_slice(number).graph.network

    @cached_property
    def of_slices(self) -> Sequence[tuple[Plan, Sequence[int]]]:
        """The plans of the slices, each with the numbers of its slices; of very many, of some."""
        batch = self.graph.network.batch
        if not self._differ:
            return [(self, range(batch))]
        found: dict[int, tuple[Plan, list[int]]] = {}
        for number in range(0, batch, -(-batch // MOST_PLANS)):
            plan = self.of_slice(number)
            found.setdefault(id(plan), (plan, []))[1].append(number)
        return list(found.values())

    def at_step(self, step: int) -> Plan:
        """Return the plan with the values of a step; the same object for steps with the same values.

        Raises ParamsError when they need another stepper.
        """
        network = self.graph.network
        values = tuple(values_at(network, step).values())
        if not values:
            return self
        found = self._plans_at.get(values)
        if found is None:
            if len(self._plans_at) >= MOST_PLANS:
                self._plans_at.clear()
            found = self._plans_at[values] = variants.at_step(self, step)
        return found

    @cached_property
    def _plans(self) -> dict[tuple[float, ...], Plan]:
        return {}

    @cached_property
    def _by_number(self) -> dict[int, Plan]:
        """The plans of slices, by number."""
        return {}

    @cached_property
    def _of_sources(self) -> set[str]:
        network = self.graph.network
        return {path for path in own_values(network, 0) if is_source(network, path)}

    @cached_property
    def models(self) -> dict[Hashable, Plan]:
        """The first plan of each kind of slices."""
        return {}

    @cached_property
    def plain_numbers(self) -> set[str]:
        """The key paths of numbers in which slices differ, and which leave them of one kind."""
        return plain_numbers(self.graph.network)

    @cached_property
    def _plans_at(self) -> dict[tuple[float, ...], Plan]:
        return {}

    def next_sync(self, step: int) -> int:
        """Return the first step after `step` at whose end slices meet."""
        periods = [(self.flush, 0), (self.checkpoint, 0), (self.block, 0), (self.evaluation, 0)]
        periods += [(update.period, update.offset) for update in self.weight_updates if update.reduced]
        steps = [next_fire(period, step, offset) for period, offset in periods]
        steps += [stop for stop in self.stops if stop > step]
        return min(self.length, *(s for s in steps if s is not None))

    def judges(self, step: int) -> bool:
        """Return whether it is judged at the end of `step` if the numbers of a slice are finite.

        These steps are the same in a run, a batch, waves, a pool and a `Simulator`, on any device and ranks.
        """
        return fires(self.judgement, step) or step in self._ends

    def next_judgement(self, step: int) -> int:
        """Return the first step after `step` that is judged."""
        following = next_fire(self.judgement, step)
        assert following is not None
        return min([following, *(end for end in self._ends if end > step)])

    def judged_before(self, step: int) -> int:
        """Return the last step before `step` that is judged; it may be 0, the start."""
        return max([last_fire(self.judgement, step - 1), *(end for end in self._ends if end < step)])

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """The last step of the run; a `Simulator` may go on after it."""
        return self.graph.network.run.length, self.length

    @cached_property
    def retraces(self) -> bool:
        """Whether the steps of a slice can be made again since it was last known to be finite.

        That tells in which step it no longer was. For that, a copy is kept of what steps change, unless it is
        large; nothing may come from outside, and no rank have a part alone.
        """
        network = self.graph.network
        if self.graph.shows or network.run.until is not None or network.parallel.split:
            return False
        if self.weight_updates or self.graph.learning_synapses:
            return False
        if self.method.stepper == "program" and self.method.program.lazy:
            return False
        changing = (one for key, one in self.graph.variables.items() if last_finite.is_changed(key, one))
        return sum(math.prod(one.shape) for one in changing) <= RETRACED

    def next_event(
        self, step: int, last: int, passed: Collection[int] = (), looks_inside: bool = False
    ) -> int:
        """Return the last step that can be run from `step` in one go, up to `last`.

        A lane must stop before new input, after a step that is recorded or learned from, and for each look of
        `run.until`; not for the recordings numbered in `passed`, nor before the display ends if the stepper
        `looks_inside` its steps.
        """
        clock = self.graph.network.run.clock
        stops = [last]
        for layer in self.inputs.values():
            change = layer.next_change(step + 1, clock.display)
            if change is not None:
                stops.append(change - 1)
        for update in self.weight_updates:
            due = next_fire(update.period, step, update.offset)
            if due is not None:
                stops.append(due)
        for index, recording in enumerate(self.recordings):
            due = recording.next(step)
            if due is not None and index not in passed:
                stops.append(due)
        if self.graph.network.run.until is not None:
            ends = clock.length(clock.complete(step) + 1)
            stops.append(ends if looks_inside else next_look(self.graph.network.run.until, clock, step))
        change = next_change(self.graph.network, step + 1)
        if change is not None:
            stops.append(change - 1)
        return min(stops)


def schedule(graph: Graph, limits: Limits | None = None) -> Plan:
    """Derive the plan of a graph; `limits` are those of the GPU that runs it, None where it is not known.

    Raises ResourceError when `run.kernel` names a kernel that the network cannot have on this GPU.
    """
    network, method = graph.network, choose(graph, limits)
    run, output = network.run, network.output
    recordings = tuple(recordings_of(graph))
    most = most_steps(graph, method, 2 * multiply_adds(graph) + beside_arrivals(graph))
    if output.flush is not None:
        flush = output.flush.steps(run.display)
    else:
        flush = flush_period(recordings, run.clock, most)
    return Plan(
        graph,
        method,
        tuple(weight_updates_of(graph)),
        recordings,
        run.length,
        flush,
        checkpoint_period(network.checkpoint.every, run.clock),
        block_period(graph, most),
        judgement_period(graph, multiply_adds(graph)),
        network.evaluate.every.steps(run.display) if network.evaluate is not None else 0,
        limits=limits,
    )


def multiply_adds(graph: Graph) -> int:
    """Return the dense multiply-adds of one step of one slice."""
    return sum(
        edge.wiring.link.patches.multiply_adds
        for edges in graph.edges.values()
        for edge in edges
        if edge.wiring.link is not None
    )
