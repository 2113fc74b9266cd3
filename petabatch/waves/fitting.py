"""How many points, or slices, are held at once: what a share of the memory of the host has room for."""

from __future__ import annotations

from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm
from petabatch.parallel.cores import lane_threads
from petabatch.parallel.host_memory import host_limit, used
from petabatch.report.memory import needed

MOST = 2048
"""Slices at most: more would lose more to a kill, and be no faster."""
SHARE = 0.5
"""Part of the memory of a host that they take."""


def fitting(plan: Plan, slices: int, threads: int | None, ranks: int = 1, more: int = 0) -> int:
    """Return how many points of `slices` slices fit on each of `ranks` ranks of this host.

    A point takes `more` bytes in addition to its slices.
    """
    threads = lane_threads(plan.graph.network.run, threads)
    one, two = (needed(plan, n * slices, threads) for n in (1, 2))
    there = SHARE * (host_limit().nbytes - used()[0]) / ranks - one
    return 1 + max(0, int(there / (two - one + more)))


def least(comm: Comm, number: int) -> int:
    """Return the smallest of the numbers of all ranks, which must agree on parts; collective."""
    found = comm.gather(number)
    smallest: int = comm.broadcast(None if found is None else min(found))
    return smallest
