"""Wirings: which synapses there are between two sets of units, drawn by rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from petabatch.spec.model import Model, Positive
from petabatch.spec.synapses import Ends

_UNIT = np.int32
"""Of numbers of units, as synapses are stored."""
MOST_PAIRS = 10**12
"""Pairs of units whose distance is looked at."""
_ONE_BY_ONE = 10**11
"""Pairs of units that are drawn one by one, in minutes, with the probability of each."""
_LOOKED_AT, _COUNTED = 4_000_000, 20_000_000
"""Pairs of units whose distance is looked at in a fifth of a second, and in a second."""


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
            pre = rng.integers(ends.pre, size=self.number).astype(_UNIT)
            post = rng.integers(ends.post_units - self.selfless, size=self.number).astype(_UNIT)
            return pre, post + (self.selfless & (post >= pre)).astype(_UNIT)
        if self.in_degree is not None:
            columns = [
                self._several(self.in_degree, ends.pre, j, self._onto(ends, j), rng).astype(_UNIT)
                for j in range(ends.post_units)
            ]
            return np.concatenate(columns), np.repeat(_numbers(ends.post_units), self.in_degree)
        if self.out_degree is not None:
            rows = [
                self._several(self.out_degree, ends.post_units, i, self._of(ends, i), rng).astype(_UNIT)
                for i in range(ends.pre)
            ]
            return np.repeat(_numbers(ends.pre), self.out_degree), np.concatenate(rows)
        if self.profile is None and ends.pre * ends.post_units > _ONE_BY_ONE:
            rows = list(self._few(ends, rng))
        else:
            rows = [
                np.flatnonzero(rng.random(ends.post_units) < probability).astype(_UNIT)
                for probability in self._probabilities(ends)
            ]
        return np.repeat(_numbers(ends.pre), [row.size for row in rows]), np.concatenate(rows)

    def _few(self, ends: Ends, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the post units of each pre unit where few of very many are joined: how many, then which."""
        assert self.probability is not None
        units = ends.post_units
        for i in range(ends.pre):
            count = int(rng.binomial(units - self.selfless, self.probability))
            yield np.sort(self._several(count, units, i, None, rng)).astype(_UNIT)

    def expected(self, ends: Ends) -> float:
        """Return the number of synapses, or its mean; with a profile about that, from some of the units."""
        if self.probability is None:
            return self.most(ends)
        if self.profile is None:
            return self.probability * (ends.pre - self.selfless) * ends.post_units
        ny, nx, nf = ends.pre_shape
        middle = np.array([(ny // 2 * nx + nx // 2) * nf])
        most = _LOOKED_AT // ends.post_units
        some = _some(ends.pre, most) if most > 2 else middle
        sums = [float(np.sum(one)) for one in self._probabilities(ends, some)]
        return sum(sums) / len(some) * ends.pre

    def most(self, ends: Ends) -> int:
        """Return a number of synapses that is never exceeded, but with a probability below 1e-14."""
        if self.number is not None:
            return self.number
        if self.in_degree is not None:
            return self.in_degree * ends.post_units
        if self.out_degree is not None:
            return self.out_degree * ends.pre
        if self.profile is None:
            mean = self.expected(ends)
        else:
            mean = sum(float(np.sum(one)) for one in self._probabilities(ends))
        return min(ends.pre * ends.post_units, math.ceil(mean + 8 * math.sqrt(mean) + 32))

    def _probabilities(self, ends: Ends, units: Iterable[int] | None = None) -> Iterator[np.ndarray | float]:
        """Yield the probability of synapses of each pre unit, or of some, onto all post units."""
        assert self.probability is not None
        for i in range(ends.pre) if units is None else units:
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

    def pairs(self, ends: Ends) -> int:
        """Return the number of pairs of units whose distance is looked at."""
        return 0 if self.profile is None else ends.pre * ends.post_units

    def fewest(self, ends: Ends) -> int:
        """Return how many units the profile leaves to the unit with the fewest to choose from.

        Of very many units some are looked at, among them those in the corners, which have the fewest where
        both layers have one size.
        """
        onto = self.in_degree is not None
        units, others = (ends.post_units, ends.pre) if onto else (ends.pre, ends.post_units)
        choose = self._onto if onto else self._of
        choices = (choose(ends, int(unit)) for unit in _some(units, _COUNTED // others))
        return min(int(np.count_nonzero(one)) for one in choices if one is not None) - self.selfless

    def _of(self, ends: Ends, i: int) -> np.ndarray | None:
        if self.profile is None:
            return None
        return self.profile(distances(ends, np.array([i]), np.arange(ends.post_units), self.periodic))

    def _onto(self, ends: Ends, j: int) -> np.ndarray | None:
        if self.profile is None:
            return None
        return self.profile(distances(ends, np.arange(ends.pre), np.array([j]), self.periodic))


def in_order(pre: np.ndarray, post: np.ndarray, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Return synapses by pre unit and post unit, of `units`, sorted in little memory."""
    joint = pre * np.int64(units)
    joint += post
    joint.sort()
    first, second = np.empty(len(joint), _UNIT), np.empty(len(joint), _UNIT)
    np.floor_divide(joint, units, out=first, casting="unsafe")
    np.remainder(joint, units, out=second, casting="unsafe")
    return first, second


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


def _some(units: int, most: int) -> np.ndarray:
    """Return the numbers of units, or of at most about `most` of them, evenly spread, with both ends."""
    return np.unique(np.linspace(0, units - 1, min(units, max(3, most))).astype(np.int64))


def _numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=_UNIT)


def _place(unit: np.ndarray, shape: tuple[int, int, int], axis: int) -> np.ndarray:
    _, nx, nf = shape
    return unit // (nx * nf) if axis == 0 else unit // nf % nx
