"""The ranks that compute points together, one or several that share each slice; what they hold at once."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from petabatch.engine.assembly import Assembly
from petabatch.engine.failure import OF_A_SLICE
from petabatch.kernels.cuda.device import Device
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm, Counted, Counter
from petabatch.parallel.cores import fewest, lane_threads
from petabatch.parallel.grid import grid
from petabatch.parallel.host_memory import host_limit, used
from petabatch.parallel.watchdog import Watch
from petabatch.report.memory import needed
from petabatch.spec.duration import seconds
from petabatch.spec.network import Network
from petabatch.waves.finished import Points

MOST = 2048
"""Slices at most: more would lose more to a kill, and be no faster."""
SHARE = 0.5
"""Part of the memory of a host that they take."""
_PATIENCE = 10
"""Seconds for which a rank with an error waits for the others of its team to come with theirs."""


@dataclass(frozen=True)
class Team:
    """Ranks of which the first takes points, decides when to stop, and writes; the others follow it."""

    comm: Comm
    """All ranks."""
    leaders: Comm
    """The ranks of all teams that have the place of this one: those that are first, on these."""
    group: Comm
    """The ranks of this team."""
    threads: int | None
    """Those of each rank; alike in a team of several, which make the same calls."""
    base: Assembly
    """That of a point, by whose place among ranks the others have theirs."""
    watch: Watch
    """Hang detection of all ranks, entered while points are computed."""

    @classmethod
    def of(cls, comm: Comm, base: Plan, threads: int | None, teams: int | None = None) -> Team:
        """Return the team of this rank, for points with a plan like `base`; collective.

        Raises ResourceError if the ranks do not make whole teams, or another number of `teams`.
        """
        network = base.graph.network
        parallel = network.parallel
        place = grid(comm, teams, parallel.parts, parallel.names)
        if place.group.size > 1:
            threads = fewest(lane_threads(network.run, threads), place.group)
        watch = Watch(comm, seconds(network.run.stuck_after))
        return cls(comm, place.batch, place.group, threads, Assembly(base, place.group, threads), watch)

    @property
    def leads(self) -> bool:
        """Whether this rank is the first."""
        return self.group.rank == 0

    def assembly(self, network: Network, device: Device | None) -> Assembly:
        """Return the assembly of points; collective, also in what it raises: see `Assembly.of`."""
        return replace(Assembly.of(network, self.group, self.threads, device), first=self.base)

    def part(self, plan: Plan) -> Plan:
        """Return the plan of what a rank has of slices; collective when it is first asked for."""
        return self.base.features.of(plan).plan

    def counter(self) -> Counter:
        """Return a counter of the first ranks; the others do not take from theirs."""
        return self.leaders.counter() if self.leads else Counted()

    def following(self, waiting: Iterable[Points]) -> Iterator[Points]:
        """Yield on all ranks what the first takes."""
        taken = iter(waiting)
        while (points := self.group.broadcast(next(taken, None) if self.leads else None)) is not None:
            yield points

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Find out whether all ranks of the team have the same error of a slice in the block; collective.

        Where one has another one, or none, it may have left others in the middle of a message.
        """
        try:
            yield
        except OF_A_SLICE as error:
            number = zlib.crc32(f"{type(error).__name__} {error}".encode())
            error.in_group = self.group.agree(number + 1, _PATIENCE)
            raise
        self.group.agree(0, math.inf)

    def any(self, flag: bool) -> bool:
        """Return whether any rank of the team says so; collective."""
        return bool(self.group.any(flag))


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
