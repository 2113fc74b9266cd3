"""The plan of a run: its method, weight updates, recordings and sync events.

Between two *sync events* nothing crosses slices, so every lane (a range of slices) runs on its own. New
input, probes, samples and per-slice learning happen inside the lane; sync events are the updates of
`extra_shared` weights, flushes, checkpoints, and the end of a block of steps, after which stop signals are
handled.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from petabatch.errors import ParamsError, Problem
from petabatch.frozen import changed
from petabatch.kernels.cuda.device import Limits
from petabatch.network import last_finite, lazy_codes
from petabatch.network.alike import changes, kind_of_slice, plain_numbers, renumbered
from petabatch.network.build import with_numbers, with_numbers_of_slice, with_plain_numbers
from petabatch.network.graph import Graph
from petabatch.network.method import Method, choose, of_part
from petabatch.network.numbers import is_source, with_values
from petabatch.network.operations import Program, Update
from petabatch.network.over_time import at_step, next_change, values_at
from petabatch.network.recordings import Recording, recordings_of
from petabatch.network.slices import own_values
from petabatch.network.until import next_look
from petabatch.spec.network import Network
from petabatch.spec.parts import ImageLayer
from petabatch.spec.schedule import Every, fires, next_fire
from petabatch.variable import Variable
from petabatch.weight_mode import over_positions, over_slices

BLOCK_OPERATIONS = 4e10
"""Floating-point operations after which lanes meet at the latest, so that stop signals are handled:
seconds of one core."""
GPU_SPEED, LOOP_SPEED = 1000, 5
"""Approximate speed of a GPU and of a compiled loop, relative to layer-by-layer steps."""
LANE_OPERATIONS = 2e9
"""Minimum operations per slice between sync events (about 10 ms), so that starting a lane and loading its
state into cache are negligible."""
MOST_PLANS = 1024
"""Plans with values of other steps that are kept."""
FLUSH_BYTES = 128 * 2**20
"""What is recorded goes to disk before it takes more memory than this."""


@dataclass(frozen=True)
class UpdateSchedule:
    """The weight updates of one plastic connection."""

    name: str
    period: int
    offset: int
    reduced: bool
    """The change is summed over all slices: a sync event."""
    shared: bool = True
    """Positions have the same weights: their products are summed."""

    def due(self, step: int) -> bool:
        """Return whether the weights are updated at the end of `step`."""
        return step > 0 and fires(self.period, step, self.offset)

    def update(self, step: int) -> int:
        """Return the number of the update made at `step`, from 0."""
        first = next_fire(self.period, 0, self.offset)
        return (step - first) // self.period if first else 0


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
        return kept | last_finite.variables(kept) if self.tolerant else kept

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
            self._plans[own] = self._of_slice(number, values)
        return self._plans[own]

    def network_of(self, number: int) -> Network:
        """Return the network of a slice, with all values of its dynamics."""
        return self.of_slice(number).graph.network

    def _of_slice(self, number: int, values: Mapping[str, float]) -> Plan:
        """Return the plan of a slice with values of its own, derived from that of one of its kind."""
        network, kind = self.graph.network, kind_of_slice(values, self._plain)
        model = self._models.get(kind)
        if model is not None:
            own = with_values(network, values, slices={}, sweep=None)
            return changed(model, graph=with_plain_numbers(model.graph, own), model=model)
        try:
            graph = with_numbers_of_slice(self.graph, number)
        except ParamsError as error:
            named = [replace(one, message=f"slice {number}: {one.message}") for one in error.problems]
            raise ParamsError(named) from None
        if graph.variables.keys() != self.graph.variables.keys():
            key = next(iter(network.slices), "sweep")
            raise ParamsError([_other_state(key, f"slice {number}", graph, self.graph)])
        plan = self._with(graph, self.whole and self.whole.of_slice(number))
        if plan.method.stepper == "program" and plan.whole is None and not plan.method.program.interpreted:
            self._models[kind] = plan
        return plan

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
            graph = with_numbers(self.graph, at_step(network, step))
            found = self._plans_at[values] = self._alike(graph, step)
        return found

    def _with(self, graph: Graph, whole: Plan | None) -> Plan:
        """Return the plan of a graph that differs in numbers, with the method for these."""
        if whole is None:
            return replace(self, graph=graph, method=choose(graph, self.limits), model=None)
        method = of_part(whole.method, graph)
        return replace(self, graph=graph, method=method, whole=whole)

    def _alike(self, graph: Graph, step: int) -> Plan:
        """Return the plan of a graph that differs in numbers; raises ParamsError if that is not all."""
        plan = self._with(graph, self.whole and self.whole.at_step(step))
        if graph.variables.keys() != self.graph.variables.keys():
            raise ParamsError(
                [_other_state(next(iter(graph.network.over_time)), f"step {step}", graph, self.graph)]
            )
        if plan.method.decision == self.method.decision:
            return plan
        problem = Problem(
            next(iter(graph.network.over_time)),
            f"the values of step {step} need another kernel than those of the start",
            found=f"{plan.method}; {self.method}",
            expected="values that take the same kernel, lazily evaluated layers included",
            hint='run.kernel = "dense" computes all units, whatever the values',
        )
        raise ParamsError([problem])

    @cached_property
    def _plans(self) -> dict[tuple[float, ...], Plan]:
        return {}

    @cached_property
    def _by_number(self) -> dict[int, Plan]:
        """The plans of slices, by number."""
        return {}

    @cached_property
    def _plain(self) -> set[str]:
        return plain_numbers(self.graph.network)

    @cached_property
    def _of_sources(self) -> set[str]:
        network = self.graph.network
        return {path for path in own_values(network, 0) if is_source(network, path)}

    @cached_property
    def _models(self) -> dict[Hashable, Plan]:
        """The first plan of each kind of slices."""
        return {}

    @cached_property
    def _plans_at(self) -> dict[tuple[float, ...], Plan]:
        return {}

    def next_sync(self, step: int) -> int:
        """Return the first step after `step` at whose end slices meet."""
        block = self.block
        if self.tolerant and not self.graph.shows:  # slices stop at steps that do not depend on the batch
            block = min(block, self.graph.network.run.display)
        periods = [(self.flush, 0), (self.checkpoint, 0), (block, 0), (self.evaluation, 0)]
        periods += [(update.period, update.offset) for update in self.weight_updates if update.reduced]
        steps = [next_fire(period, step, offset) for period, offset in periods]
        steps += [stop for stop in self.stops if stop > step]
        return min(self.length, *(s for s in steps if s is not None))

    def next_event(
        self, step: int, last: int, passed: Collection[int] = (), looks_inside: bool = False
    ) -> int:
        """Return the last step that can be run from `step` in one go, up to `last`.

        A lane must stop before new input, after a step that is recorded or learned from, and for each look of
        `run.until`; not for the recordings numbered in `passed`, nor before the display ends if the stepper
        `looks_inside` its steps.
        """
        display = self.graph.network.run.display
        stops = [last]
        for layer in self.inputs.values():
            change = layer.next_change(step + 1, display)
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
            ends = step - step % display + display
            stops.append(ends if looks_inside else next_look(self.graph.network.run.until, display, step))
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
    weight_updates = tuple(
        UpdateSchedule(
            name,
            owner.learn.every.steps(run.display),
            owner.learn.offset,
            over_slices(owner.mode),
            over_positions(owner.mode),
        )
        for name, owner in graph.plastic.items()
        if owner.learn is not None
    )
    recordings = tuple(recordings_of(graph))
    flush = output.flush.steps(run.display) if output.flush is not None else None
    each = max(1, 2 * multiply_adds(graph))
    speed = GPU_SPEED if run.device == "gpu" else 1 if method.by_layers else LOOP_SPEED
    most = max(1, int(speed * BLOCK_OPERATIONS / (network.batch * each)))
    if not method.by_layers:
        most = max(most, int(LANE_OPERATIONS / each))
    if flush is None:
        flush = _flush(recordings, run.display, most)
    block = max(1, run.display // -(-run.display // most))  # a whole fraction of a display where possible
    if run.until is not None or not graph.shows:
        block *= max(1, most // run.display)  # slices that are done go on to their next image
    return Plan(
        graph,
        method,
        weight_updates,
        recordings,
        run.length,
        flush,
        _checkpoint(network.checkpoint.every, run.display),
        block,
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


def _checkpoint(every: Every | None, display: int) -> int:
    """Return the period of checkpoints in steps: by default at least 50 displays and 1000 steps."""
    return every.steps(display) if every is not None else display * max(50, -(-1000 // display))


def _flush(recordings: tuple[Recording, ...], display: int, seconds: int) -> int:
    """Return a period of ten displays, or what fits in memory; derived from the description alone.

    Of very short displays it is more, since each flush writes a file: as many as are made in `seconds`, a
    number of steps, up to the default period of checkpoints.
    """
    per_step = 0.0
    for recording in recordings:
        per_step += recording.stream.nbytes / recording.period if recording.period else 0
    fits = int(FLUSH_BYTES / per_step) if per_step else 10 * display
    steps = min(fits, max(10 * display, min(seconds, _checkpoint(None, display))))
    return max(1, steps - steps % display if steps >= display else steps)


def _other_state(key: str, where: str, graph: Graph, first: Graph) -> Problem:
    """Return the problem of values that need other variables, such as a momentum that is 0 at first."""
    lacking, spare = (
        sorted(a.variables.keys() - b.variables.keys()) for a, b in ((graph, first), (first, graph))
    )
    return Problem(
        key,
        f"the values of {where} need other variables than those of the start of slice 0",
        found=", ".join([*(f"{name} as well" for name in lacking), *(f"no {name}" for name in spare)]),
        expected="values with the same variables; a momentum, for example, that is 0 nowhere or everywhere",
    )
