"""Sums of numbers that belong together, in an order that no timing changes, on numpy or cupy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from petabatch.variable import Array

_WIDTH = 8
"""Numbers that one pass adds up."""


@dataclass(frozen=True)
class Segments:
    """Which of some numbers are added up: those with the same target, in their order.

    Numbers with one target are added up by eights, then the sums of eights, and so on. `xp.add.at` and
    `xp.bincount` would use atomic operations on a GPU, whose order differs from run to run, and with it the
    last bits.
    """

    passes: tuple[Array, ...]
    """Indices of what each pass adds up, int64 `[8, sums]`; the one beyond the last is that of a 0."""

    @classmethod
    def of(cls, xp: Any, targets: Array, count: int) -> Segments:
        """Return how numbers with these targets `[n]`, from 0 to `count`, are added up.

        Sorted once; on a GPU the host waits for the number of sums of each pass.
        """
        if len(targets):
            lengths, numbers = xp.bincount(targets, minlength=count), xp.argsort(targets, kind="stable")
        else:  # which not all versions of CuPy count and sort
            lengths, numbers = xp.zeros(count, int), xp.zeros(0, int)
        passes = []
        while True:
            first = xp.cumsum(lengths) - lengths
            # A target that nothing arrives at has a sum, too: 0.
            sums = xp.maximum(-(-lengths // _WIDTH), 1)
            ends = xp.cumsum(sums)
            each = xp.arange(int(ends[-1]))
            target = xp.searchsorted(ends, each, side="right")
            begin = first[target] + _WIDTH * (each - (ends - sums)[target])
            at = begin + xp.arange(_WIDTH)[:, None]
            inside = at < (first + lengths)[target]
            nothing = len(numbers)
            if nothing:
                passes.append(xp.where(inside, numbers[xp.minimum(at, nothing - 1)], nothing))
            else:
                passes.append(xp.zeros(at.shape, at.dtype))
            if int(sums.max()) == 1:
                return cls(tuple(passes))
            numbers, lengths = each, sums

    def add_up(self, xp: Any, values: Array) -> Array:
        """Return the sums `[..., count]` of values `[..., n]`."""
        for rows in self.passes:
            zero = xp.zeros((*values.shape[:-1], 1), values.dtype)
            values = xp.concatenate([values, zero], axis=-1)
            total = values[..., rows[0]]
            for row in rows[1:]:
                total += values[..., row]
            values = total
        return values
