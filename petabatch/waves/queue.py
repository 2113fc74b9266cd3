"""The queue of an experiment: its points in parts, which ranks take as they get free, and chunks for jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from petabatch.errors import ArgumentError
from petabatch.parallel.comm import NO_MORE, Comm, Counter
from petabatch.waves.finished import Points

_INDEX = ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID")


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


@dataclass(frozen=True)
class Chunk:
    """Every `count`-th point, from point `number - 1` on."""

    number: int = 1
    """From 1."""
    count: int = 1

    def on(self, teams: Comm) -> Chunk:
        """Return the part of a rank, or of the first of a team."""
        return Chunk((self.number - 1) * teams.size + teams.rank + 1, self.count * teams.size)


def chunk_of(text: str, environment: Mapping[str, str] = os.environ) -> Chunk:
    """Return the chunk that `7/100` means, or `auto` and `auto/100` in a job of an array.

    `auto/100` takes the number of the job, of arrays from 1 or from 0, so that some of them may be submitted
    again; `auto` its place in the array, of which PBS does not tell the size. Raises ArgumentError.
    """
    found = re.fullmatch(r"(auto|\d+)(?:/(\d+))?", text.strip())
    if found is None or (found[2] is None and found[1] != "auto"):
        raise ArgumentError("--chunk", "this is not a part of a sweep", text, "K/N, auto or auto/N")
    if found[1] != "auto":
        return _checked(int(found[1]), int(found[2]), text)
    index = next((environment[name] for name in _INDEX if environment.get(name)), None)
    if index is None:
        raise ArgumentError(
            "--chunk", "this is no job of an array", text, f"one of the variables {', '.join(_INDEX)}"
        )
    if found[2]:
        return _checked(int(index) or int(found[2]), int(found[2]), text)
    first, step = (int(environment.get(f"SLURM_ARRAY_TASK_{name}", 1)) for name in ("MIN", "STEP"))
    count = environment.get("SLURM_ARRAY_TASK_COUNT")
    if count is None:
        raise ArgumentError("--chunk", "PBS does not tell how many jobs there are", text, "auto/N")
    return _checked((int(index) - first) // step + 1, int(count), text)


def _checked(number: int, count: int, text: str) -> Chunk:
    if not 1 <= number <= count:
        found = text if "auto" not in text else f"{text}: job {number} of {count}"
        raise ArgumentError("--chunk", "there is no such part", found, "K/N with 1 <= K <= N")
    return Chunk(number, count)
