"""Wirings: which synapses there are between two sets of units, drawn by rules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from petabatch.spec.model import Model, Positive
from petabatch.spec.synapses import Ends


class Profile(Model):
    """Relative probability of synapses over the distance d of their units, 1 at d = 0.

    Units lie in the middle of their row and column; all features of a position are in one place. Both layers
    have the same size, and the distance of neighbours in the pre layer is 1.
    """

    type: Literal["gaussian", "exponential", "disc"] = "gaussian"
    """`gaussian`: exp(-d^2 / (2 width^2)). `exponential`: exp(-d / width). `disc`: 1 up to d = width, 0
    beyond."""
    width: Positive
    """Standard deviation, length or radius."""

    def __call__(self, distance: np.ndarray) -> np.ndarray:
        """Return the values at some distances."""
        if self.type == "disc":
            return (distance <= self.width).astype(float)
        x = distance / self.width
        return np.exp(-0.5 * x * x if self.type == "gaussian" else -x)


class Rule(NamedTuple):
    """How synapses are drawn; one of the first four is given."""

    probability: float | None
    in_degree: int | None
    out_degree: int | None
    number: int | None
    profile: Profile | None
    periodic: bool
    """Distances are those on a torus."""
    selfless: bool
    """No unit has a synapse onto itself; pre and post units are the same."""

    def draw(self, ends: Ends, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return the pre unit and the post unit of each synapse."""
        if self.number is not None:
            pre = rng.integers(ends.pre, size=self.number)
            post = rng.integers(ends.post_units - self.selfless, size=self.number)
            return pre, post + (self.selfless & (post >= pre))
        if self.in_degree is not None:
            columns = [
                self._several(self.in_degree, ends.pre, j, self._onto(ends, j), rng)
                for j in range(ends.post_units)
            ]
            return np.concatenate(columns), np.repeat(np.arange(ends.post_units), self.in_degree)
        if self.out_degree is not None:
            rows = [
                self._several(self.out_degree, ends.post_units, i, self._of(ends, i), rng)
                for i in range(ends.pre)
            ]
            return np.repeat(np.arange(ends.pre), self.out_degree), np.concatenate(rows)
        rows = [
            np.flatnonzero(rng.random(ends.post_units) < probability)
            for probability in self._probabilities(ends)
        ]
        return np.repeat(np.arange(ends.pre), [row.size for row in rows]), np.concatenate(rows)

    def most(self, ends: Ends) -> int:
        """Return a number of synapses that is never exceeded, but with a probability below 1e-14."""
        if self.number is not None:
            return self.number
        if self.in_degree is not None:
            return self.in_degree * ends.post_units
        if self.out_degree is not None:
            return self.out_degree * ends.pre
        mean = sum(float(np.sum(np.broadcast_to(one, ends.post_units))) for one in self._probabilities(ends))
        return min(ends.pre * ends.post_units, math.ceil(mean + 8 * math.sqrt(mean) + 32))

    def _probabilities(self, ends: Ends) -> Iterator[np.ndarray | float]:
        """Yield the probability of synapses of each pre unit onto all post units."""
        assert self.probability is not None
        for i in range(ends.pre):
            if self.profile is None and not self.selfless:
                yield self.probability
                continue
            weights = self._of(ends, i)
            found = (
                np.full(ends.post_units, self.probability) if weights is None else self.probability * weights
            )
            if self.selfless:
                found[i] = 0
            yield found

    def _several(
        self, count: int, units: int, own: int, weights: np.ndarray | None, rng: np.random.Generator
    ) -> np.ndarray:
        """Return different units, with chances in proportion to `weights`."""
        if weights is None:
            found: np.ndarray = rng.choice(units - self.selfless, count, replace=False, shuffle=False)
            return found + (self.selfless & (found >= own))
        if self.selfless:
            weights[own] = 0
        return rng.choice(units, count, replace=False, p=weights / weights.sum(), shuffle=False)

    def fewest(self, ends: Ends) -> int:
        """Return how many units the profile leaves to the unit with the fewest to choose from."""
        ways = [self._onto(ends, j) for j in range(ends.post_units)] if self.in_degree is not None else [
            self._of(ends, i) for i in range(ends.pre)
        ]  # fmt: skip
        counts = [int(np.count_nonzero(one)) for one in ways if one is not None]
        return min(counts, default=0) - self.selfless

    def _of(self, ends: Ends, i: int) -> np.ndarray | None:
        if self.profile is None:
            return None
        return self.profile(distances(ends, np.array([i]), np.arange(ends.post_units), self.periodic))

    def _onto(self, ends: Ends, j: int) -> np.ndarray | None:
        if self.profile is None:
            return None
        return self.profile(distances(ends, np.arange(ends.pre), np.array([j]), self.periodic))


def distances(ends: Ends, pre: np.ndarray, post: np.ndarray, periodic: bool) -> np.ndarray:
    """Return the distances of pairs of units; neighbours in the pre layer have distance 1."""
    square: np.ndarray = np.zeros(())
    for axis in (0, 1):
        size = ends.pre_shape[axis]
        a, b = (
            (_place(unit, shape, axis) + 0.5) * (size / shape[axis])
            for unit, shape in ((pre, ends.pre_shape), (post, ends.shape))
        )
        apart = np.abs(a - b)
        if periodic:
            apart = np.minimum(apart, size - apart)
        square = square + apart * apart
    found: np.ndarray = np.sqrt(square)
    return found


def farthest(ends: Ends, periodic: bool) -> float:
    """Return a distance that no two units exceed."""
    return math.hypot(*(size / (2 if periodic else 1) for size in ends.pre_shape[:2]))


def _place(unit: np.ndarray, shape: tuple[int, int, int], axis: int) -> np.ndarray:
    _, nx, nf = shape
    return unit // (nx * nf) if axis == 0 else unit // nf % nx
