"""Sparse connections: single synapses between units, random or given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.connections.coordinates import Coordinates, Matrix, given_coordinates, read_coordinates
from petabatch.errors import InputError
from petabatch.kernels.array import ArrayKernels
from petabatch.spec.model import Count, Fraction, OneOf
from petabatch.spec.parts import Connection, Layer, Operation, Wiring
from petabatch.spec.paths import FilePath
from petabatch.spec.synapses import Ends, Synapses
from petabatch.spec.weights import Initial
from petabatch.variable import Array, Border
from petabatch.weight_mode import WeightMode, for_each_slice, over_positions, over_slices

_ORIGINS = ("probability", "in_degree", "path", "matrix")


class Sparse(Connection):
    """Single synapses: `probability`, `in_degree`, `path` or `matrix` says which units they join.

    What arrives is summed from the active units of the pre layer alone, so that its cost grows with their
    number. Which synapses there are is the same in all slices. Units are numbered in memory order: row,
    column, feature. A unit can have a synapse onto itself. The weights do not learn.
    """

    type: Literal["sparse"] = "sparse"
    probability: Fraction | None = None
    """Probability of each possible synapse, independently of all others."""
    in_degree: Count | None = None
    """Number of synapses onto each post unit, from pre units that are all different."""
    path: FilePath | None = None
    """Matrix `[pre units, post units]` of weights: a `.npz` file written by `scipy.sparse.save_npz` (COO, CSR
    or CSC), or by `numpy.savez` with arrays `row`, `col` and `data`."""
    matrix: Matrix | None = None
    """A matrix of SciPy `[pre units, post units]`, or a list of edges: rows of pre unit, post unit and
    weight, or a tuple of these columns; in Python only."""
    mode: WeightMode = "extra_non_shared"
    """Weight sharing. `non_shared`: synapses between all units of the two layers. `shared`: between the
    features at one position, the same at each position. Without prefix, each slice has its own weights; with
    `extra_`, all slices share the same weights."""
    init: Annotated[Initial, OneOf(Initial)] | None = None
    """Initialisation of the weights, an array `[1, 1, 1, 1, 1, synapses]`; by default those of the file
    or matrix."""

    @model_validator(mode="after")
    def _one_origin(self) -> Sparse:
        given = [key for key in _ORIGINS if getattr(self, key) is not None]
        if len(given) != 1:
            raise PydanticCustomError(
                "sparse",
                "it is not clear which synapses there are",
                {
                    "got": " and ".join(given) or "none of them",
                    "expected": "one of `probability`, `in_degree`, `path` and, in Python, `matrix`",
                },
            )
        weighted = self.path is not None or (self.matrix is not None and len(self.matrix) > 2)
        if self.init is None and not weighted:
            raise PydanticCustomError(
                "sparse_init",
                "the weights of the synapses are missing",
                {"got": "no `init`", "expected": 'such as init = { type = "uniform", low = 0, high = 1 }'},
            )
        return self

    @property
    def operation(self) -> Operation:
        """The sum over synapses."""
        return "sparse"

    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Check that the synapses have places in the two layers."""
        pre, post = layers[self.pre].shape, layers[self.post].shape
        shared = over_positions(self.mode)
        if shared and pre[:2] != post[:2]:
            report(
                "mode",
                "synapses between features need the same positions in both layers",
                found=f"pre {list(pre)}, post {list(post)}",
                expected='equal rows and columns, or mode = "extra_non_shared"',
            )
            return None
        positions = pre[0] * pre[1] if shared else 1
        ends = Ends(positions, int(np.prod(pre)) // positions, post)
        if self.in_degree is not None and self.in_degree > ends.pre:
            report(
                "in_degree",
                "there are fewer units to receive synapses from",
                found=str(self.in_degree),
                expected=f"at most {ends.pre}, the {'features' if shared else 'units'} of {self.pre}",
            )
            return None
        if self.init is not None and self.init.per_slice and over_slices(self.mode):
            report(
                "init.per_slice",
                "these weights belong to all slices",
                found=f'mode = "{self.mode}"',
                expected=f'mode = "{for_each_slice(self.mode)}"',
            )
        if self.init is not None and self.init.of_patches:
            report(
                "init",
                "this initialiser is for the weights of patches",
                found=self.init.type,
                expected="array, constant without same_feature, file, gaussian or uniform",
            )
        try:
            self._given(ends)
        except InputError as error:
            report("path" if self.path is not None else "matrix", str(error))
            return None
        return Wiring(synapses=ends)

    def synapses(self, ends: Ends, rng: np.random.Generator) -> Synapses:
        """Draw or read the synapses, by pre unit and post unit."""
        if (given := self._given(ends)) is not None:
            found = given
        elif self.probability is not None:
            found = _independent(ends, self.probability, rng)
        else:
            assert self.in_degree is not None
            found = _fixed_in_degree(ends, self.in_degree, rng)
        order = np.lexsort((found.post, found.pre))
        starts = np.zeros(ends.pre + 1, np.int64)
        np.cumsum(np.bincount(found.pre, minlength=ends.pre), out=starts[1:])
        weights = None if self.init is not None else found.weights[order]
        targets = found.post[order].astype(np.int32)
        return Synapses(starts, targets, weights, self.init, self.mode, given is None)

    def _given(self, ends: Ends) -> Coordinates | None:
        """Return the synapses that a file or matrix has; raises InputError if they do not fit."""
        if self.path is not None:
            return read_coordinates(self.path, ends.pre, ends.post_units)
        return None if self.matrix is None else given_coordinates(self.matrix, ends.pre, ends.post_units)

    def deliver(
        self, kernels: ArrayKernels, wiring: Wiring, activity: Array, border: Border, patches: Array | None
    ) -> Array:
        """Sum over the synapses."""
        assert wiring.synapses is not None
        assert patches is not None
        return kernels.scatter(activity, patches, *wiring.synapses)


def _independent(ends: Ends, probability: float, rng: np.random.Generator) -> Coordinates:
    rows = [np.flatnonzero(rng.random(ends.post_units) < probability) for _ in range(ends.pre)]
    pre = np.repeat(np.arange(ends.pre), [row.size for row in rows])
    return Coordinates(pre, np.concatenate(rows), np.zeros(0))


def _fixed_in_degree(ends: Ends, number: int, rng: np.random.Generator) -> Coordinates:
    columns = [rng.choice(ends.pre, number, replace=False, shuffle=False) for _ in range(ends.post_units)]
    return Coordinates(np.concatenate(columns), np.repeat(np.arange(ends.post_units), number), np.zeros(0))
