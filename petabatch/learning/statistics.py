"""Online learning of a dictionary from codes: statistics that forget, and the atoms that fit them best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petabatch.variable import Array

FORGETTING = 4.0
"""Power of (1 - batch / samples so far), the factor on older statistics. Of 0, 1, 2, 3, 4 and 6, that with
the least objective after one epoch of 20,000 patches of photographs, 256 atoms; after ten, 6 is 0.1 % better.
"""
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
        from petabatch.kernels.cpu.online import accumulate  # numba, which is not needed before a run

        a, b = kept * self.products, kept * self.images
        items = np.require(items, requirements=["C", "W"])  # kernels are compiled for such arrays
        accumulate(codes, items, a, b, np.zeros(len(a), np.int64))
        return Statistics(a, b)

    def fitted(self, atoms: Array, *, negative: bool = True) -> Array:
        """Return the atoms, float64, after one round in which each moves to its minimum in the unit ball.

        There is no rate: the minimum with the other atoms fixed is known. Atoms without use stay as they are.
        Without `negative`, no number of an atom is below zero.
        """
        from petabatch.kernels.cpu.online import fit_atoms

        found = np.array(atoms, float, order="C")
        fit_atoms(self.products, self.images, found, negative, np.zeros(found.shape[1]))
        return found

    @property
    def unused(self) -> Array:
        """Numbers of the atoms that codes hardly use."""
        use = np.diag(self.products)
        return np.flatnonzero(use <= _UNUSED * use.mean())

    def refreshed(
        self, atoms: Array, items: Array, residuals: Array, *, negative: bool = True
    ) -> tuple[Array, Statistics]:
        """Replace unused atoms by normalised items; return the atoms, and the statistics without their use.

        Items with the largest squared `residuals` come first; what is described without one is not taken.
        """
        worst = np.argsort(-residuals, kind="stable")[: len(self.unused)]
        worst = worst[residuals[worst] > 0]
        unused = self.unused[: len(worst)]
        found, a, b = atoms.copy(), self.products.copy(), self.images.copy()
        taken = items[worst].astype(float)
        found[unused] = normalized(taken if negative else np.abs(taken))
        a[unused] = a[:, unused] = b[unused] = 0
        return found, Statistics(a, b)


def normalized(atoms: Array) -> Array:
    """Return atoms `[atoms, pixels]` of length 1, but for those that are zero."""
    length = np.linalg.norm(atoms, axis=1, keepdims=True)
    return atoms / np.where(length > 0, length, 1)
