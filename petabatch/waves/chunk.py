"""The part of a sweep that a job of an array makes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from petabatch.errors import ArgumentError
from petabatch.parallel.comm import Comm

_INDEX = ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID")


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
