"""Consistency checks over ranks: identical arrays, and the same software environment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from petabatch.errors import PetabatchError, ResourceError
from petabatch.parallel.comm import Comm


class RanksDisagree(PetabatchError):
    """An array that all ranks share differs between them; the message names the array and the ranks."""


def assert_identical(comm: Comm, arrays: Mapping[str, np.ndarray]) -> None:
    """Check, by hash, that each array is the same on all ranks; `arrays` maps its name in errors to it.

    Collective. Raises RanksDisagree on all ranks.
    """
    problems = [
        f"{name}: differs between ranks\n    found:    {found}"
        for name, found in _differences(comm, {name: _hash(array) for name, array in arrays.items()})
    ]
    if problems:
        problems.append(
            "    expected: the same hash on all ranks\n"
            "    hint:     resume from a checkpoint; if the same host differs again, check its hardware "
            "and libraries"
        )
        raise RanksDisagree("\n".join(problems))


def assert_same_environment(comm: Comm, facts: Mapping[str, str]) -> None:
    """Check that facts on which results depend, such as library versions by name, agree on all ranks.

    Collective. Raises ResourceError on all ranks.
    """
    problems = [
        f"{name} is not the same on all ranks\n    found:    {found}"
        for name, found in _differences(comm, facts)
    ]
    if problems:
        problems.append(
            "    expected: the same on all ranks, since other libraries or CPUs may round differently\n"
            "    hint:     start all ranks with the same params file in the same environment"
        )
        raise ResourceError("\n".join(problems))


def _differences(comm: Comm, mine: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each name whose value differs, with the value on each rank in words."""
    everyone: list[dict[str, str]] = comm.broadcast(comm.gather(dict(mine)))
    found = []
    for name in sorted({name for one in everyone for name in one}):
        groups: dict[str, list[int]] = {}
        for rank, texts in enumerate(everyone):
            groups.setdefault(texts.get(name, "missing"), []).append(rank)
        if len(groups) > 1:
            parts = (f"{text} on {name_ranks(ranks, comm.hosts)}" for text, ranks in groups.items())
            found.append((name, ", ".join(parts)))
    return found


def fingerprint(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _hash(array: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=8).hexdigest()


def name_ranks(ranks: Sequence[int], hosts: Sequence[str]) -> str:
    """Return ranks in words, with their hosts if the run has several, such as `ranks 2, 3 (on node1)`."""
    named = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
    if len(set(hosts)) == 1:
        return named
    return f"{named} (on {', '.join(dict.fromkeys(hosts[rank] for rank in ranks))})"
