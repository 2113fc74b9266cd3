"""The state of step 0: weights, synapses, layers and images, drawn or given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Literal

import numpy as np

from petabatch.engine.agreement import agreed
from petabatch.engine.failure import OF_A_SLICE, Failure
from petabatch.engine.features import Features
from petabatch.engine.finite import assert_finite
from petabatch.engine.state import State
from petabatch.engine.weight_update import normalise
from petabatch.errors import InputError, InputFileError, ParamsError, PetabatchError, Problem
from petabatch.network.numbers import is_plain
from petabatch.network.over_time import at_step
from petabatch.network.slices import first_of_seeds, own_values, seed_of, within_point
from petabatch.random import stream
from petabatch.spec.network import Network
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import PatchOwner
from petabatch.spec.paths import file_problem
from petabatch.spec.synapses import Drawn, Synapses
from petabatch.spec.weights import Initial
from petabatch.variable import Array, Variable

Readers = Mapping[str, Callable[[int, int], np.ndarray]]
"""The image of a global slice and item, by input layer."""


class Start:
    """What a state begins with."""

    def __init__(self, state: State, features: Features, tolerant: bool = False, tag: int = 0) -> None:
        """Fill a state; where it is `tolerant`, slices without a first image fail.

        Ranks that share the slices meet for each `tag`: one that fails on some of them fails on all.
        """
        self._state, self._arrays, self._lo = state, state.arrays, state.lo
        self._features, self._tolerant, self._tag = features, tolerant, tag
        self.failures: dict[int, Failure] = {}
        """Slices that have failed, by their number."""
        self._without_image: dict[int, PetabatchError] = {}
        self._graph, self._network = state.graph, state.graph.network

    def fill(self, readers: Readers) -> None:
        """Fill the state of step 0: weights, first images, membrane potentials and their activity.

        Raises InputFileError with everything that cannot be used of what the network names, NonFiniteError
        when a number is not finite.
        """
        problems = []
        for name, owner in self._graph.patched.items():
            weights = self._arrays[f"connections/{name}/weights"]
            try:
                with calling(owner.init, f"connections.{name}.init"):
                    self._draw(name, owner.init, owner.mode, weights)
            except InputError as error:
                problems.append(file_problem(f"connections.{name}.init", owner.init, error))
        for name, owner in self._graph.plastic.items():
            problems += self._start_rule(name, owner)
        problems += self._start_synapses("network")
        if problems:
            raise InputFileError(problems)
        normalise(self._graph, self._features, self._arrays, np)
        self._state.refresh()
        self.fill_slices(readers)

    def fill_slices(self, readers: Readers) -> None:
        """Fill layers, and synapses of each slice, from initial values; raises the same errors."""
        error: PetabatchError | None = None
        try:
            self._fill_layers(readers)
        except OF_A_SLICE as raised:
            error = raised
        slices = range(self._lo, self._state.hi)
        mine = [error, *(self._without_image.get(number) for number in slices)]
        error, *others = agreed(mine, self._features.group, self._tag)
        if error is not None:
            raise error
        for number, found in zip(slices, others, strict=True):
            if found is not None:
                self.failures[number] = Failure.of(found, 0)

    def _fill_layers(self, readers: Readers) -> None:
        """Fill layers, and synapses of each slice; raises the errors of this rank."""
        problems = self._start_synapses("slice")
        for name in chain.from_iterable(self._graph.order):  # those whose variables others read come first
            if f"layers/{name}/A" not in self._arrays:
                continue  # of all slices, and so there already
            layer, activity = self._network.layers[name], self._arrays[f"layers/{name}/A"][:, 0]
            self._start_from_values(name)
            problems += self._start_variables(name, without="A")
            with calling(layer, f"layers.{name}"):
                self._prepare(name, activity)
            problems += self._start_variables(name, only="A")
            if layer.images is None or name not in readers:
                continue
            try:
                self._show(name, readers[name], self._tolerant and layer.batch is None)
            except InputError as error:
                problems.append(file_problem(f"layers.{name}.source", layer.images.source, error))
        if problems:
            raise InputFileError(problems)
        self._state.assert_finite(0)

    def _show(self, layer: str, reader: Callable[[int, int], np.ndarray], tolerant: bool) -> None:
        """Show the first images of a layer; where slices fail alone, nothing in those that have none."""
        key = f"layers/{layer}/A"
        activity = self._arrays[key][:, :1]
        for place in range(len(activity)):  # a single one of a layer that is held once
            number, mine = self._lo + place, activity[place : place + 1]
            try:
                mine[...] = reader(number, 0)
                if tolerant:
                    assert_finite({key: mine}, self._state.variables, self._state.graph, [number], 0)
            except OF_A_SLICE as error:
                if not tolerant:
                    raise
                mine[...] = 0
                self._without_image[number] = error

    def _start_rule(self, name: str, owner: PatchOwner) -> list[Problem]:
        """Initialise variables of a learning rule; return what is wrong with the files that are read."""
        problems: list[Problem] = []
        for variable, (key, initial) in owner.learn.starts.items() if owner.learn is not None else ():
            values, path = self._arrays[f"connections/{name}/{variable}"], f"connections.{name}.learn.{key}"
            try:
                with calling(initial, path):
                    self._draw(
                        f"{name}/{variable}", initial, owner.mode, values, f"connections/{name}/weights"
                    )
            except InputError as error:
                problems.append(file_problem(path, initial, error))
        return problems

    def _start_variables(self, name: str, without: str = "", only: str = "") -> list[Problem]:
        """Initialise the variables that `starts` names; return what is wrong with the files that are read."""
        problems = []
        for first, some, own in self._own(name):
            layer = own.layers[name]
            for variable, (path, initial) in layer.starts.items():
                if variable == without or (only and variable != only):
                    continue
                key, values = f"layers.{name}.{path}", self._arrays[f"layers/{name}/{variable}"][some]
                if variable == "A":
                    values = values[:, 0]
                try:
                    with calling(initial, key):
                        self._fill(initial, values, f"start/{name}/{variable}", first)
                    _check_whole(self._state.variables[f"layers/{name}/{variable}"], values)
                except InputError as error:
                    problems.append(file_problem(key, initial, error))
        return problems

    def _start_synapses(self, per: Literal["network", "slice"]) -> list[Problem]:
        """Set synapses and weights that belong to all slices, or to each; return what is wrong with files."""
        problems = []
        for name, synapses in self._graph.synapses.items():
            if synapses.connected_per == per:
                self._connect(name, synapses)
            if synapses.per == per:
                problems += self._start_synaptic_weights(name, synapses)
                problems += self._start_learned(name, synapses)
        return problems

    def _connect(self, name: str, synapses: Synapses) -> None:
        """Set which synapses there are, and their delays."""
        mine = self._state.owned(f"connections/{name}")
        for index in range(len(mine["starts"])):
            own = self._drawn(name, synapses, self._lo + index) if synapses.apart else synapses.first
            count = len(own.targets)
            mine["starts"][index], mine["targets"][index, :count] = own.starts, own.targets
            if own.delays is not None:
                mine["delays"][index, :count] = own.delays
        synapses.put_in_order(mine)

    def _start_synaptic_weights(self, name: str, synapses: Synapses) -> list[Problem]:
        """Set initial weights; return what is wrong with the files that are read."""
        mine = self._state.owned(f"connections/{name}")
        weights = mine["weights"]
        if synapses.init is None:
            weights[...] = synapses.first.given
            return []
        try:
            with calling(synapses.init, f"connections.{name}.init"):
                if (others := synapses.init.synapses()) is not None:
                    self._assert_same(name, mine, *others)
                if synapses.apart and not synapses.init.given:
                    self._draw_apart(name, synapses.init, mine["starts"][:, -1], weights)
                elif weights.size or synapses.init.given:
                    whole = weights.reshape(len(weights), 1, 1, 1, 1, 1, -1)
                    self._draw(name, synapses.init, synapses.mode, whole)
        except InputError as error:
            return [file_problem(f"connections.{name}.init", synapses.init, error)]
        return []

    def _start_learned(self, name: str, synapses: Synapses) -> list[Problem]:
        """Set variables that start with a value of each synapse; return what is wrong with files."""
        mine, problems = self._state.owned(f"connections/{name}"), list[Problem]()
        for variable, (key, initial) in synapses.learn.starts.items() if synapses.learn is not None else ():
            path, values = f"connections.{name}.learn.{key}", mine[variable]
            try:
                with calling(initial, path):
                    self._fill(initial, values.reshape(len(values), 1, 1, -1), f"start/{name}/{variable}")
            except InputError as error:
                problems.append(file_problem(path, initial, error))
        return problems

    def _assert_same(
        self, name: str, mine: Mapping[str, Array], starts: np.ndarray, targets: np.ndarray
    ) -> None:
        """Raise InputError unless synapses are those that the weights were of.

        Those of a batch that is too small are not looked at: so are its weights.
        """
        for index in range(len(mine["starts"])):
            (own,) = within_point(self._network, range(self._lo + index, self._lo + index + 1))
            if starts.ndim > 1 and own >= len(starts):
                continue
            first, ends = (array[own] if array.ndim > 1 else array for array in (starts, targets))
            count = int(mine["starts"][index, -1])
            same = np.array_equal(first, mine["starts"][index])
            if not same or not np.array_equal(ends[:count], mine["targets"][index, :count]):
                raise InputError(
                    f"these weights are of other synapses than connection {name} has\n"
                    "    hint:     run.seed and the rule must be those of that run; to take over its "
                    "synapses, too, write them by run.synapses(...).save(FILE) and give FILE as `path`"
                )

    def _drawn(self, name: str, synapses: Synapses, number: int) -> Drawn:
        """Return the synapses of a slice that has its own."""
        network, mine = self._network, self._state.network_of(number)
        own = within_point(network, range(number, number + 1)) if synapses.per_slice else ()
        rng = stream(seed_of(network, number), f"synapses/{name}", *own)
        found = mine.connections[name].synapses(synapses.ends, rng, mine.run.dt).first
        if len(found.targets) > synapses.most:
            raise InputError(f"{len(found.targets)} synapses are more than chance makes")
        return found

    def _draw_apart(self, name: str, init: Initial, counts: Array, weights: Array) -> None:
        """Set the initial weights of slices with different numbers of synapses."""
        for index, count in enumerate(counts.tolist()):
            if count == 0 and not init.given:
                continue  # of nothing there is no image, and no distribution
            own = np.empty((1, 1, 1, 1, 1, 1, count), weights.dtype)
            self._fill(init, own, f"weights/{name}", index)
            weights[index, :count] = own.reshape(-1)

    def _draw(self, name: str, init: Initial, mode: str, weights: Array, like: str = "") -> None:
        """Set initial weights, or other values of a connection that belong to what the weights `like` do.

        Raises ParamsError when weights that belong to all slices would start from several seeds.
        """
        network = self._network
        if self._state.variables[like or f"connections/{name}/weights"].per == "slice":
            self._fill(init, weights, f"weights/{name}")
            return
        seeds = [seed_of(network, number) for number in first_of_seeds(network)]
        drawn = [init.weights(weights.shape[1:], stream(seed, f"weights/{name}")) for seed in seeds]
        first, *others = drawn
        if not all(np.array_equal(first, other) for other in others):
            problem = Problem(
                "sweep.run.seed" if network.sweep is not None else "run.seed",
                f"the weights of connection {name} belong to all slices, and start from one seed",
                found=f'{len(drawn)} seeds, and connections.{name}.mode = "{mode}"',
                expected=f'mode = "{mode.removeprefix("extra_")}", or one run for each seed',
            )
            raise ParamsError([problem])
        weights[...] = first

    def _fill(self, initial: Initial, values: Array, purpose: str, first: int = 0) -> None:
        """Set initial values `[slices, ...]` from a local slice on.

        They are the same in all slices of a seed, unless `per_slice`.
        """
        network, shape = self._network, values.shape[1:]
        drawn: dict[int, np.ndarray] = {}
        for index, number in enumerate(range(self._lo + first, self._lo + first + len(values))):
            seed, (own,) = seed_of(network, number), within_point(network, range(number, number + 1))
            if initial.per_slice and not initial.given:
                values[index] = initial.weights(shape, stream(seed, purpose, own))
                continue
            if seed not in drawn:
                whole = (network.run.batch, *shape) if initial.per_slice else shape
                drawn[seed] = initial.weights(whole, stream(seed, purpose))
            values[index] = drawn[seed][own] if initial.per_slice else drawn[seed]

    def _prepare(self, layer: str, activity: Array) -> None:
        """Set the initial state of a layer, in each slice with its values.

        What connections deliver in their own step, variables of other layers, is there too.
        """
        state = self._state.owned(f"layers/{layer}")
        seen = [edge for edge in self._graph.edges[layer] if edge.connection.carries != "A"]
        strengths = (f"connections.{edge.name}.strength" for edge in seen)
        for _, some, own in self._own(layer, "run.dt", *strengths):
            arrived: dict[str, Array] = {}
            for edge in seen:
                c = own.connections[edge.name]
                if (values := self._arrays.get(f"layers/{c.pre}/{c.carries}")) is not None:
                    arrived[c.into] = arrived.get(c.into, 0) + edge.sign * c.strength * values[some]
            own.layers[layer].prepare(
                {**arrived, **{key: array[some] for key, array in state.items()}}, activity[some], own.run.dt
            )

    def _start_from_values(self, layer: str) -> None:
        """Set the variables of a layer to what its values in each slice say."""
        state, network = self._state.owned(f"layers/{layer}"), self._network
        plain = all(is_plain(network, path) for path in self._paths(layer))
        if plain and not network.over_time:
            return  # variables begin alike
        for _, some, own in self._own(layer):
            for variable in own.layers[layer].variables():
                state[variable.name][some] = variable.initial

    def _own(self, layer: str, *keys: str) -> Iterator[tuple[int, slice, Network]]:
        """Yield local slices with the same values of a layer: the first, all, and their network in step 0.

        `keys` are others in whose values they may differ.
        """
        if not self._paths(layer, *keys):
            yield 0, slice(None), at_step(self._network, 0)
            return
        for index in range(self._state.hi - self._lo):
            own = at_step(self._state.network_of(self._lo + index), 0)
            yield index, slice(index, index + 1), own

    def _paths(self, layer: str, *keys: str) -> list[str]:
        """Return the key paths of a layer, and of others, in which slices differ."""
        paths = own_values(self._network, 0)
        return [path for path in paths if path.startswith(f"layers.{layer}.") or path in keys]


def _check_whole(variable: Variable, values: Array) -> None:
    """Raise InputError if a variable of whole numbers starts with others."""
    found = "" if variable.whole is None else variable.whole.wrong(values)
    if variable.whole is not None and found:
        raise InputError(
            f"{variable.name} cannot start with these values\n    found:    {found}\n"
            f"    expected: {variable.whole.expected()}"
        )
