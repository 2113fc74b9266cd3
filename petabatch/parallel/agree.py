"""Ranks that should hold the same bits: a check that they do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from petabatch.errors import PetabatchError
from petabatch.parallel.comm import Comm


class RanksDisagree(PetabatchError):
    """Ranks hold different bits of what is the same for all slices; names it, and the ranks."""


def agree(comm: Comm, arrays: Mapping[str, np.ndarray]) -> None:
    """Compare a hash of each array over all ranks; `arrays` maps what it is called in errors to the array.

    Collective. Raises RanksDisagree on all ranks together.
    """
    mine = {name: _hash(array) for name, array in arrays.items()}
    everyone: list[dict[str, str]] = comm.broadcast(comm.gather(mine))
    problems = []
    for name in mine:
        groups: dict[str, list[int]] = {}
        for rank, hashes in enumerate(everyone):
            groups.setdefault(hashes[name], []).append(rank)
        if len(groups) > 1:
            found = ", ".join(f"{digest} on {_ranks(ranks)}" for digest, ranks in groups.items())
            problems.append(f"{name}: the ranks hold different bits\n    found:    {found}")
    if problems:
        problems.append(
            "    expected: the same hash on all ranks\n"
            "    hint:     resume from a checkpoint; a host that differs again has a fault or other libraries"
        )
        raise RanksDisagree("\n".join(problems))


def _hash(array: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=8).hexdigest()


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
