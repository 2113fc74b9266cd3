"""The queue of an experiment: its points in parts, which ranks take as they get free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from petabatch.parallel.comm import NO_MORE, Comm, Counter
from petabatch.waves.finished import Points


@dataclass(frozen=True)
class Parts:
    """Points in parts, each of which is computed together."""

    points: Points
    order: np.ndarray
    """Indices of the points, part by part."""
    ends: np.ndarray
    """The end of each part among them."""

    @classmethod
    def of(cls, points: Points, order: np.ndarray, ends: np.ndarray, size: int, ranks: int = 1) -> Parts:
        """Return the parts `ends` of points in parts of at most `size`.

        On several ranks parts become smaller to the end, so that no rank waits long for another's last one.
        """
        found = []
        begin, last = 0, len(order)
        for end in ends.tolist():
            while begin < end:
                fair = size if ranks == 1 else -(-(last - begin) // (2 * ranks))
                begin = min(end, begin + max(1, min(size, fair)))
                found.append(begin)
        return cls(points, order, np.array(found, np.int64))

    def __len__(self) -> int:
        return len(self.ends)

    def begin(self, number: int) -> int:
        """Return how many points are in the parts before one."""
        return int(self.ends[number - 1]) if number else 0

    def __iter__(self) -> Iterator[Points]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Points:
        return self.points.taken(self.order[self.begin(number) : self.ends[number]])


class Queue:
    """Parts that wait for whichever rank is free."""

    def __init__(self, parts: Parts, counter: Counter, takers: Comm) -> None:
        """Each of the `takers` begins with the part of its rank."""
        self._parts, self._counter, self._takers = parts, counter, takers
        self.by_others = 0
        """Points that other ranks had taken when this one took its last part."""

    def __iter__(self) -> Iterator[Points]:
        mine, number = 0, self._takers.rank
        while number < len(self._parts):
            self.by_others = self._parts.begin(number) - mine
            part = self._parts[number]
            mine += len(part.numbers)
            yield part
            number = self._takers.size + self._counter.take()
        if number < NO_MORE:
            self.by_others = len(self._parts.order) - mine
