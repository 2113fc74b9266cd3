"""Online learning of a dictionary from codes: statistics that forget, and the atoms that fit them best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petabatch.kernels.cpu.online import accumulate, fit_atoms
from petabatch.variable import Array

_UNUSED = 1e-6
"""Part of the mean use of atoms below which one is replaced."""


@dataclass(frozen=True)
class Statistics:
    """What a dictionary is learned from: sums over items, older ones discounted."""

    products: Array
    """Sum of code code^T, float64 `[atoms, atoms]`."""
    images: Array
    """Sum of code item^T, float64 `[atoms, pixels]`."""

    @classmethod
    def none(cls, atoms: int, pixels: int) -> Statistics:
        """Return the sums over no items."""
        return cls(np.zeros((atoms, atoms)), np.zeros((atoms, pixels)))

    def with_items(self, codes: Array, items: Array, kept: float = 1.0) -> Statistics:
        """Return the sums with further items `[n, pixels]` and their codes, added in their order, in float64.

        `kept` is a factor on the sums before.
        """
        a, b = kept * self.products, kept * self.images
        items = np.require(items, requirements=["C", "W"])  # kernels are compiled for such arrays
        accumulate(codes, items, a, b, np.zeros(len(a), np.int64))
        return Statistics(a, b)

    def fitted(self, atoms: Array, *, negative: bool = True) -> Array:
        """Return the atoms, float64, after one round in which each moves to its minimum in the unit ball.

        There is no rate: the minimum with the other atoms fixed is known. Atoms without use stay as they are.
        Without `negative`, no number of an atom is below zero.
        """
        found = np.array(atoms, float, order="C")
        fit_atoms(self.products, self.images, found, negative, np.zeros(found.shape[1]))
        return found

    @property
    def unused(self) -> Array:
        """Numbers of the atoms that codes hardly use."""
        use = np.diag(self.products)
        return np.flatnonzero(use <= _UNUSED * use.mean())

    def without(self, atoms: Array) -> Statistics:
        """Return the statistics in which some atoms, by their numbers, have had no use."""
        a, b = self.products.copy(), self.images.copy()
        a[atoms] = a[:, atoms] = b[atoms] = 0
        return Statistics(a, b)
