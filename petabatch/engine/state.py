"""The state of a rank: arrays allocated from their declarations, filled for step 0, seen lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np

from petabatch.engine.arrays import FixedArrays
from petabatch.engine.features import Features
from petabatch.engine.finite import assert_finite, watched
from petabatch.engine.pages import Pages
from petabatch.engine.weight_update import normalise
from petabatch.errors import FormatError, InputError, InputFileError, ParamsError, Problem
from petabatch.kernels.array import ArrayKernels
from petabatch.network import lazy_codes
from petabatch.network.graph import Graph
from petabatch.network.numbers import is_plain
from petabatch.network.over_time import at_step
from petabatch.network.slices import first_of_seeds, own_values, seed_of, sliced, within_point
from petabatch.random import stream
from petabatch.spec.network import Network
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import Layer, WeightOwner
from petabatch.spec.paths import file_problem
from petabatch.spec.synapses import Drawn, Synapses
from petabatch.spec.weights import Initial
from petabatch.variable import Array, Variable

Readers = Mapping[str, Callable[[int, int], np.ndarray]]
"""The image of a global slice and item, by input layer."""


class State:
    """Every array of slices lo <= slice < hi, by key; the leading axis is the local batch, or 1."""

    def __init__(
        self,
        graph: Graph,
        variables: Mapping[str, Variable],
        lo: int,
        hi: int,
        network_of: Callable[[int], Network] | None = None,
    ) -> None:
        """Allocate the arrays; `network_of` gives the network of a slice, where it is known already."""
        self.graph, self.variables = graph, variables
        self._network_of = network_of or partial(sliced, graph.network)
        self.lo, self.hi = lo, hi
        precision = graph.network.run.precision
        arrays, pages = {}, Pages()
        for key, variable in variables.items():
            lead = hi - lo if variable.per == "slice" else 1
            shape, dtype = (lead, *variable.shape), variable.dtype_in(precision)
            try:
                arrays[key] = pages.zeros(shape, dtype)
                if variable.initial != 0:
                    arrays[key].fill(variable.initial)
            except (MemoryError, ValueError) as error:  # ValueError: its size is not even a number of bytes
                raise MemoryError(f"{key} is {' x '.join(map(str, shape))} of {dtype}") from error
        self.arrays = FixedArrays(arrays)

    def lane(self, lanes: slice) -> Mapping[str, Array]:
        """Return views on the given local slices, read-only; arrays of the whole network are seen whole."""
        return MappingProxyType(
            {
                key: array[lanes] if self.variables[key].per == "slice" else array
                for key, array in self.arrays.items()
            }
        )

    def owned(self, prefix: str) -> Mapping[str, Array]:
        """Return the arrays whose key is `prefix/<name>`, by that name, as a read-only mapping."""
        return owned(self.arrays, prefix)

    def seated(self, lanes: slice, slices: range) -> State:
        """Return the arrays of these local slices, without those of all, as the arrays of other `slices`."""
        seen = copy(self)
        seen.variables = {key: one for key, one in self.variables.items() if one.per == "slice"}
        seen.arrays = FixedArrays({key: self.arrays[key][lanes] for key in seen.variables})
        seen.lo, seen.hi = slices.start, slices.stop
        return seen

    def start(self, readers: Readers, features: Features) -> None:
        """Fill the state of step 0: weights, first images, membrane potentials and their activity.

        Raises InputFileError with everything that cannot be used of what the network names, NonFiniteError
        when a number is not finite.
        """
        problems = []
        for name, owner in self.graph.weighted.items():
            weights = self.arrays[f"connections/{name}/weights"]
            try:
                with calling(owner.init, f"connections.{name}.init"):
                    self._draw(name, owner.init, owner.mode, weights)
            except InputError as error:
                problems.append(file_problem(f"connections.{name}.init", owner.init, error))
        for name, owner in self.graph.plastic.items():
            problems += self._start_rule(name, owner)
        problems += self._start_synapses("network")
        if problems:
            raise InputFileError(problems)
        normalise(self.graph, features, self.arrays, np)
        self.refresh()
        self.start_slices(readers)

    def start_slices(self, readers: Readers) -> None:
        """Fill layers, and synapses of each slice, from initial values; raises the same errors."""
        problems = self._start_synapses("slice")
        for name, layer in self.graph.network.layers.items():
            if f"layers/{name}/A" not in self.arrays:
                continue  # of all slices, and so there already
            activity = self.arrays[f"layers/{name}/A"][:, 0]
            self._start_from_values(name)
            problems += self._start_variables(name, layer, without="A")
            with calling(layer, f"layers.{name}"):
                self._prepare(name, activity)
            problems += self._start_variables(name, layer, only="A")
            if layer.images is None or name not in readers:
                continue
            try:
                for index in range(len(activity)):
                    activity[index] = readers[name](self.lo + index, 0)
            except InputError as error:
                problems.append(file_problem(f"layers.{name}.source", layer.images.source, error))
        if problems:
            raise InputFileError(problems)
        self.assert_finite(0)

    def _start_rule(self, name: str, owner: WeightOwner) -> list[Problem]:
        """Initialise variables of a learning rule; return what is wrong with the files that are read."""
        problems: list[Problem] = []
        for variable, (key, initial) in owner.learn.starts.items() if owner.learn is not None else ():
            values, path = self.arrays[f"connections/{name}/{variable}"], f"connections.{name}.learn.{key}"
            try:
                with calling(initial, path):
                    self._draw(
                        f"{name}/{variable}", initial, owner.mode, values, f"connections/{name}/weights"
                    )
            except InputError as error:
                problems.append(file_problem(path, initial, error))
        return problems

    def _start_variables(self, name: str, layer: Layer, without: str = "", only: str = "") -> list[Problem]:
        """Initialise the variables that `starts` names; return what is wrong with the files that are read."""
        problems = []
        for variable, (path, initial) in layer.starts.items():
            if variable == without or (only and variable != only):
                continue
            key, values = f"layers.{name}.{path}", self.arrays[f"layers/{name}/{variable}"]
            try:
                with calling(initial, key):
                    self._fill(
                        initial, values[:, 0] if variable == "A" else values, f"start/{name}/{variable}"
                    )
            except InputError as error:
                problems.append(file_problem(key, initial, error))
        return problems

    def _start_synapses(self, per: Literal["network", "slice"]) -> list[Problem]:
        """Set synapses and weights that belong to all slices, or to each; return what is wrong with files."""
        problems = []
        for name, synapses in self.graph.synapses.items():
            if synapses.connected_per == per:
                self._connect(name, synapses)
            if synapses.per == per:
                problems += self._start_synaptic_weights(name, synapses)
        return problems

    def _connect(self, name: str, synapses: Synapses) -> None:
        """Set which synapses there are, and their delays."""
        mine = self.owned(f"connections/{name}")
        for index in range(len(mine["starts"])):
            own = self._drawn(name, synapses, self.lo + index) if synapses.apart else synapses.first
            count = len(own.targets)
            mine["starts"][index], mine["targets"][index, :count] = own.starts, own.targets
            if own.delays is not None:
                mine["delays"][index, :count] = own.delays

    def _start_synaptic_weights(self, name: str, synapses: Synapses) -> list[Problem]:
        """Set initial weights; return what is wrong with the files that are read."""
        mine = self.owned(f"connections/{name}")
        weights = mine["weights"]
        if synapses.init is None:
            weights[...] = synapses.first.given
            return []
        try:
            with calling(synapses.init, f"connections.{name}.init"):
                if synapses.apart:
                    self._draw_apart(name, synapses.init, mine["starts"][:, -1], weights)
                else:
                    whole = weights.reshape(len(weights), 1, 1, 1, 1, 1, -1)
                    self._draw(name, synapses.init, synapses.mode, whole)
        except InputError as error:
            return [file_problem(f"connections.{name}.init", synapses.init, error)]
        return []

    def _drawn(self, name: str, synapses: Synapses, number: int) -> Drawn:
        """Return the synapses of a slice that has its own."""
        assert synapses.draw is not None
        network = self.graph.network
        own = within_point(network, range(number, number + 1)) if synapses.per_slice else ()
        found = synapses.draw(stream(seed_of(network, number), f"synapses/{name}", *own))
        if len(found.targets) > synapses.most:
            raise InputError(f"{len(found.targets)} synapses are more than chance makes")
        return found

    def _draw_apart(self, name: str, init: Initial, counts: Array, weights: Array) -> None:
        """Set the initial weights of slices with different numbers of synapses."""
        network = self.graph.network
        for index, count in enumerate(counts.tolist()):
            number = self.lo + index
            own = within_point(network, range(number, number + 1)) if init.per_slice else ()
            rng = stream(seed_of(network, number), f"weights/{name}", *own)
            weights[index, :count] = init.weights((1, 1, 1, 1, 1, count), rng).reshape(-1)

    def _draw(self, name: str, init: Initial, mode: str, weights: Array, like: str = "") -> None:
        """Set initial weights, or other values of a connection that belong to what the weights `like` do.

        Raises ParamsError when weights that belong to all slices would start from several seeds.
        """
        network = self.graph.network
        if self.variables[like or f"connections/{name}/weights"].per == "slice":
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

    def _fill(self, initial: Initial, values: Array, purpose: str) -> None:
        """Set initial values `[slices, ...]`: the same in all slices of a seed, unless `per_slice`."""
        network, shape = self.graph.network, values.shape[1:]
        drawn: dict[int, np.ndarray] = {}
        for index, number in enumerate(range(self.lo, self.lo + len(values))):
            seed, (own,) = seed_of(network, number), within_point(network, range(number, number + 1))
            if initial.per_slice and not initial.given:
                values[index] = initial.weights(shape, stream(seed, purpose, own))
                continue
            if seed not in drawn:
                whole = (network.run.batch, *shape) if initial.per_slice else shape
                drawn[seed] = initial.weights(whole, stream(seed, purpose))
            values[index] = drawn[seed][own] if initial.per_slice else drawn[seed]

    def _prepare(self, layer: str, activity: Array) -> None:
        """Set the initial state of a layer, in each slice with its values."""
        network, state = self.graph.network, self.owned(f"layers/{layer}")
        each = list(self._own(layer))
        if not each:
            at_step(network, 0).layers[layer].prepare(state, activity)
        for one, own in each:
            own.prepare({key: array[one] for key, array in state.items()}, activity[one])

    def _start_from_values(self, layer: str) -> None:
        """Set the variables of a layer to what its values in each slice say."""
        network, state = self.graph.network, self.owned(f"layers/{layer}")
        if all(is_plain(network, path) for path in self._paths(layer)):
            return  # variables begin alike
        for one, own in self._own(layer):
            for variable in own.variables():
                state[variable.name][one] = variable.initial

    def _own(self, layer: str) -> Iterator[tuple[slice, Layer]]:
        """Yield a layer with the values of each slice, and the slice; nothing where all have the same."""
        if self._paths(layer):
            for index in range(self.hi - self.lo):
                own = at_step(self._network_of(self.lo + index), 0)
                yield slice(index, index + 1), own.layers[layer]

    def _paths(self, layer: str) -> list[str]:
        """Return the key paths of a layer in which slices differ."""
        return [path for path in own_values(self.graph.network, 0) if path.startswith(f"layers.{layer}.")]

    def clear(self) -> None:
        """Set every array to its initial value."""
        for key, variable in self.variables.items():
            self.arrays[key][...] = variable.initial

    def refresh(self) -> None:
        """Bring weights seen from the post layer up to date."""
        refresh(self.graph, self.arrays, ArrayKernels(np))

    def assert_finite(self, step: int, keys: Iterable[str] | None = None) -> None:
        """Raise NonFiniteError when the arrays of `keys`, by default all that are saved, are not finite."""
        chosen = {
            key: self.arrays[key]
            for key in (self.variables if keys is None else keys)
            if watched(self.variables[key])
        }
        assert_finite(chosen, self.variables, self.graph.network, range(self.lo, self.hi), step)

    def saved(self) -> dict[str, Array]:
        """Return the arrays a checkpoint holds."""
        return {key: array for key, array in self.arrays.items() if self.variables[key].checkpoint}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the arrays of a checkpoint.

        Raises FormatError when some are missing, ValueError when one has another shape or dtype.
        """
        saved = self.saved()
        restarts = set() if lazy_codes.continues(saved, arrays) else lazy_codes.keys(saved)
        if missing := sorted(saved.keys() - arrays.keys() - restarts):
            raise FormatError(
                f"the checkpoint lacks arrays of this network\n    found:    no {', '.join(missing)}\n"
                "    hint:     it is of an earlier version of petabatch, with which the run can be resumed"
            )
        for key in saved:
            if key not in restarts:
                self.arrays[key] = arrays[key]
        self.refresh()


def owned(arrays: Mapping[str, Array], prefix: str) -> Mapping[str, Array]:
    """Return the arrays whose key is `prefix/<name>`, by that name, as a read-only mapping."""
    return MappingProxyType(
        {
            key[len(prefix) + 1 :]: array
            for key, array in arrays.items()
            if key.startswith(prefix + "/") and "/" not in key[len(prefix) + 1 :]
        }
    )


def refresh(
    graph: Graph, arrays: Mapping[str, Array], kernels: ArrayKernels, only: str | None = None
) -> None:
    """Recompute `patches` from `weights` where they are not the same memory seen differently."""
    for name in graph.weighted if only is None else (only,):
        key = f"connections/{name}/patches"
        link = graph.wirings[name].link
        if key in arrays and link is not None:
            arrays[key][...] = kernels.to_patches(arrays[f"connections/{name}/weights"], link)
