"""The LASSO of many vectors with one dictionary: exact codes by homotopy, on threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, wait
from copy import copy
from typing import NamedTuple

import numpy as np

from petabatch.arguments import positive, whole_number
from petabatch.errors import ArgumentError, Described
from petabatch.kernels.cpu.homotopy.drive import ABREAST, drive
from petabatch.kernels.cpu.homotopy.path import LANES, Path, new_path
from petabatch.kernels.cpu.homotopy.solve import BLOCK, Atoms, Block, Goal, new_block, solve
from petabatch.threads import ThreadPool
from petabatch.variable import Array

_BYTES = 2**28
"""Bytes of a Gram matrix, at most."""
_TOGETHER = 32 * BLOCK
"""Items of a call of the kernel: some milliseconds."""
_TINY = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
"""Squared distance of an atom from the space of others, relative to its square, that rounding explains."""
_EXPECTED = "an array [atoms, pixels] of float32 or float64"


class Solution(NamedTuple):
    """Codes of items, and how each was reached."""

    code: Array
    """`[items, atoms]`, of the type of the solver."""
    gap: Array
    """Relative duality gap of each, float64 `[items]`."""
    steps: Array
    """Number of steps for each, int64 `[items]`."""
    active: Array
    """Number of active atoms of each, int64 `[items]`."""


def fits(atoms: int) -> bool:
    """Return whether the Gram matrix of so many atoms, float32, is small enough for this solver."""
    return 4 * atoms**2 <= _BYTES


class Lasso:
    """A dictionary and a penalty: codes A of items X minimise 0.5 |X - A dictionary|^2 + penalty |A|_1.

    The path of solutions for falling penalties is followed to the penalty (homotopy, LARS), which ends at the
    minimum itself, up to rounding; where rounding or linearly dependent atoms lead it astray, coordinate
    descent goes on until the relative duality gap is at most `gap`. The code of an item depends, bit for
    bit, on no other item, on no number of threads and on no place.

    Parameters
    ----------
    dictionary
        Atoms in rows, float32 or float64 `[atoms, pixels]`; items have the same type.
    penalty
        Weight of the sum of absolute coefficients, above 0.
    signed
        Whether coefficients may be negative.
    gap
        Largest relative duality gap.
    steps
        Largest number of steps of the path, and of sweeps of coordinate descent.
    weights
        Numbers `[pixels]`, not negative: each squared residual counts so often.

    Raises
    ------
    ArgumentError
        Shapes or types are others, or products of atoms are not finite.
    """

    def __init__(
        self,
        dictionary: Array,
        penalty: float,
        *,
        signed: bool = True,
        gap: float = 1e-4,
        steps: int = 1000,
        weights: Array | None = None,
    ) -> None:
        if dictionary.ndim != 2 or 0 in dictionary.shape or dictionary.dtype not in _TINY:
            found = Described(f"{dictionary.dtype} {list(dictionary.shape)}")
            raise ArgumentError("dictionary", "these are not atoms", found, _EXPECTED)
        self.atoms, self.pixels = dictionary.shape
        self.dtype = dictionary.dtype
        if weights is not None and not (np.shape(weights) == (self.pixels,) and np.all(weights >= 0)):
            expected = f"{self.pixels} numbers that are not negative"
            raise ArgumentError("weights", "these are not weights of pixels", weights, expected)
        self._factor = None if weights is None else np.sqrt(weights).astype(self.dtype)
        given = dictionary if self._factor is None else dictionary * self._factor
        rows = np.zeros((_padded(self.atoms), _padded(self.pixels)), self.dtype)
        rows[: self.atoms, : self.pixels] = given
        columns, gram = np.ascontiguousarray(rows.T), np.empty((len(rows), len(rows)), self.dtype)
        drive(rows, columns, gram)
        if not np.isfinite(gram).all():
            found = Described(
                f"atoms of a length up to {np.linalg.norm(given.astype(float), axis=1).max():.3g}"
            )
            raise ArgumentError("dictionary", f"its products are too large for {self.dtype}", found)
        self._atoms = Atoms(rows, columns, gram)
        self._spaces = threading.local()
        capacity = min(dictionary.shape)
        self._goal = Goal(
            positive("penalty", penalty),
            bool(signed),
            float(gap),
            capacity,
            _TINY[self.dtype],
            whole_number("steps", steps, 1),
        )

    def of(self, penalty: float, signed: bool) -> Lasso:
        """Return the solver of the same dictionary for another penalty or sign, at no cost."""
        other = copy(self)
        other._goal = self._goal._replace(penalty=positive("penalty", penalty), signed=signed)
        return other

    def here(self, items: Array) -> Solution:
        """Return the codes of a few items `[items, pixels]`, on the thread that calls; none is refused."""
        items = np.require(items, self.dtype, ["C", "W"])
        if self._factor is not None:
            items = items * self._factor
        found = self._room(len(items))
        self._solve(items, *found)
        return found

    def _room(self, count: int) -> Solution:
        return Solution(
            np.zeros((count, self.atoms), self.dtype),
            np.zeros(count),
            np.zeros(count, int),
            np.zeros(count, int),
        )

    def solve(self, items: Array, threads: int | None = None) -> Solution:
        """Return the codes of items `[items, pixels]`; by default on as many threads as there are cores.

        Raises ArgumentError for items of another shape, and one that is not finite or too large for the type.
        """
        items = np.require(
            items, self.dtype, ["C", "W"]
        )  # kernels are compiled for arrays that can be written
        if items.ndim != 2 or items.shape[1] != self.pixels:
            expected, shape = f"an array [items, {self.pixels}]", list(items.shape)
            raise ArgumentError("items", "these do not fit the dictionary", Described(shape), expected)
        if self._factor is not None:
            items = items * self._factor
        count = len(items)
        found = self._room(count)
        if threads is None:
            threads = len(os.sched_getaffinity(0))
        threads = min(whole_number("threads", threads, 1), -(-count // _TOGETHER))
        if not count:
            return found
        with ThreadPool(threads, "lasso") as pool:
            parts = [
                pool.submit(self._solve, items[part], *(one[part] for one in found)) for part in _parts(count)
            ]
            try:
                done = wait(parts, return_when=FIRST_EXCEPTION).done
            except BaseException:  # of a signal: what waits is not begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            for one in done:
                one.result()
        if not np.isfinite(found.gap).all():
            number = int(np.argmin(np.isfinite(found.gap)))
            values = Described(f"numbers up to {np.abs(items[number]).max():.3g} in item {number}")
            raise ArgumentError("items", "this item is not finite, or too large to be coded", values)
        return found

    def _solve(self, items: Array, code: Array, gap: Array, steps: Array, active: Array) -> None:
        solve(items, self._atoms, self._goal, *self._work, code, gap, steps, active)

    @property
    def _work(self) -> tuple[Path, Block, Block]:
        """Work space of this thread."""
        own: tuple[Path, Block, Block] | None = getattr(self._spaces, "own", None)
        if own is None:
            atoms, pixels = self._atoms.rows.shape
            blocks = (new_block(size, atoms, pixels, self.dtype) for size in (BLOCK, ABREAST))
            own = self._spaces.own = (new_path(atoms, self._goal.capacity, self.dtype), *blocks)
        return own


def _padded(number: int) -> int:
    return -(-number // LANES) * LANES


def _parts(count: int) -> Iterator[slice]:
    """Yield the items that are coded in one call."""
    return (slice(first, first + _TOGETHER) for first in range(0, count, _TOGETHER))
