"""The state of a rank: arrays allocated from their declarations, seen lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from types import MappingProxyType

import numpy as np

from petabatch.engine.arrays import FixedArrays
from petabatch.engine.finite import assert_finite, watched
from petabatch.engine.pages import Pages
from petabatch.errors import FormatError
from petabatch.kernels.array import ArrayKernels
from petabatch.network import last_finite, lazy_codes
from petabatch.network.graph import Graph
from petabatch.network.slices import sliced
from petabatch.spec.network import Network
from petabatch.variable import Array, Variable


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
        self.network_of = network_of or partial(sliced, graph.network)
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

    def clear(self) -> None:
        """Set every array to its initial value."""
        for key, variable in self.variables.items():
            self.arrays[key][...] = variable.initial

    def refresh(self) -> None:
        """Bring weights seen from the post layer up to date."""
        refresh(self.graph, self.arrays, ArrayKernels(np))

    def put_in_order(self) -> None:
        """Put synapses that learn into the other orders in which events go through them."""
        for name, synapses in self.graph.learning_synapses.items():
            if f"connections/{name}/starts" in self.arrays:
                synapses.put_in_order(self.owned(f"connections/{name}"))

    def assert_finite(self, step: int, keys: Iterable[str] | None = None) -> None:
        """Raise NonFiniteError when the arrays of `keys`, by default all that are saved, are not finite."""
        chosen = {
            key: self.arrays[key]
            for key in (self.variables if keys is None else keys)
            if watched(self.variables[key])
        }
        assert_finite(chosen, self.variables, self.graph, range(self.lo, self.hi), step)

    def saved(self) -> dict[str, Array]:
        """Return the arrays a checkpoint holds."""
        return {key: array for key, array in self.arrays.items() if self.variables[key].checkpoint}

    def kept(self) -> dict[str, Array]:
        """Return the last finite state of slices that may stop, and its step, as a checkpoint holds it."""
        return {key: self.arrays[key] for key in last_finite.saved(self.variables)}

    def restore_kept(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Take over the last finite state from a checkpoint; return False if it has none."""
        kept = self.kept()
        if last_finite.needed(kept) != last_finite.needed(last_finite.saved(arrays)):
            return False
        for key in kept.keys() & arrays.keys():
            self.arrays[key] = arrays[key]
        if last_finite.TRACED in self.arrays and kept.keys() <= arrays.keys():
            self.arrays[last_finite.TRACED] = arrays[last_finite.STEP]
        return True

    def forget_kept(self) -> None:
        """Let no step be made again from the state that is kept."""
        if last_finite.TRACED in self.arrays:
            self.arrays[last_finite.TRACED][...] = -1

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the arrays of a checkpoint.

        Raises FormatError when some are missing or `check_whole` refuses them, ValueError when one has
        another shape or dtype.
        """
        saved = self.saved()
        restarts = set() if lazy_codes.continues(saved, arrays) else lazy_codes.keys(saved)
        if missing := sorted(saved.keys() - arrays.keys() - restarts):
            raise FormatError(
                f"the checkpoint lacks arrays of this network\n    found:    no {', '.join(missing)}\n"
                "    hint:     it is of an earlier version of petabatch, with which the run can be resumed"
            )
        check_whole(self.variables, arrays)
        for key in saved:
            if key not in restarts:
                self.arrays[key] = arrays[key]
        self.refresh()
        self.put_in_order()


def check_whole(variables: Mapping[str, Variable], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise FormatError if an array, by its key, does not have the whole numbers that its variable must."""
    for key, array in arrays.items():
        whole = variables[key].whole if key in variables else None
        if whole is not None and (found := whole.wrong(array)):
            raise FormatError(
                f"{key}: a network cannot go on from these numbers\n"
                f"    found:    {found}\n    expected: {whole.expected()}"
            )


def owned(arrays: Mapping[str, Array], prefix: str) -> Mapping[str, Array]:
    """Return the arrays whose key is `prefix/<name>`, by that name, as a read-only mapping."""
    return MappingProxyType(
        {
            key[len(prefix) + 1 :]: array
            for key, array in arrays.items()
            if key.startswith(prefix + "/") and "/" not in key[len(prefix) + 1 :]
        }
    )


def refresh_own(
    graph: Graph, variables: Mapping[str, Variable], arrays: Mapping[str, Array], kernels: ArrayKernels
) -> None:
    """Do as `refresh` for the weights of each slice."""
    for name in graph.patched:
        if variables[f"connections/{name}/weights"].per == "slice":
            refresh(graph, arrays, kernels, name)


def refresh(
    graph: Graph, arrays: Mapping[str, Array], kernels: ArrayKernels, only: str | None = None
) -> None:
    """Recompute `patches` from `weights` where they are not the same memory seen differently."""
    for name in graph.patched if only is None else (only,):
        key = f"connections/{name}/patches"
        link = graph.wirings[name].link
        if key in arrays and link is not None:
            arrays[key][...] = kernels.to_patches(arrays[f"connections/{name}/weights"], link)
